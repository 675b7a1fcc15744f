#include <gtest/gtest.h>
#include <torch/torch.h>

#include "train/step/gradients.h"

namespace {

TEST(Gradients, ATiedWeightIsClippedOnce) {
  torch::nn::Linear tied(torch::nn::LinearOptions(2, 2).bias(false));
  torch::nn::Sequential model(tied, torch::nn::Tanh(), tied);
  tied->weight.mutable_grad() = torch::full({2, 2}, 2.0);
  EXPECT_DOUBLE_EQ(adaact::clip_gradients(*model, 1.0), 4.0);
  EXPECT_NEAR(tied->weight.grad().norm().item<double>(), 1.0, 1e-6);
}

}  // namespace
