#include "models/drop_path.h"

#include <adaact/models/registry.h>
#include <adaact/models/resnet_imagenet.h>
#include <adaact/models/vit.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/tolerance.h"

namespace {

using adaact::drop_path;
using adaact::drop_path_rate;
using adaact::testing::bit_identical;

TEST(DropPath, OutsideTrainingAndAtRateZeroIsTheBranchItself) {
  const auto branch = torch::randn({4, 3, 2, 2});
  EXPECT_TRUE(drop_path(branch, 0.5, /*training=*/false).is_same(branch));
  EXPECT_TRUE(drop_path(branch, 0.0, /*training=*/true).is_same(branch));
}

TEST(DropPath, ASampleIsLeftOutWholeOrScaledWhole) {
  torch::manual_seed(0);
  for (const auto& shape : {std::vector<int64_t>{64, 5, 3, 3}, std::vector<int64_t>{64, 9, 4}}) {
    const auto branch = torch::rand(shape, torch::kFloat64) + 0.5;
    const auto ratios = (drop_path(branch, 0.2, /*training=*/true) / branch).flatten(1);
    for (int64_t sample = 0; sample < 64; ++sample) {
      const auto first = ratios[sample][0].item<double>();
      EXPECT_TRUE(first == 0.0 || std::abs(first - 1.25) < 1e-12) << first;
      EXPECT_LT((ratios[sample] - first).abs().max().item<double>(), 1e-12);
    }
  }
}

TEST(DropPath, KeepsTheExpectation) {
  torch::manual_seed(1);
  constexpr int64_t kSamples = 100000;
  for (const auto rate : {0.05, 0.1, 0.7}) {
    const auto kept = drop_path(torch::ones({kSamples, 1}), rate, /*training=*/true);
    const auto dropped = (kept == 0).to(torch::kFloat64).mean().item<double>();
    const auto deviation = std::sqrt(rate * (1 - rate) / kSamples);
    EXPECT_NEAR(dropped, rate, 5 * deviation);
    EXPECT_NEAR(kept.mean().item<double>(), 1.0, 5 * deviation / (1 - rate));
  }
}

TEST(DropPath, KeepsTheDtypeAndGradientsOfLeftOutSamplesAreZero) {
  torch::manual_seed(2);
  auto branch = torch::ones({32, 4}, torch::requires_grad());
  const auto kept = drop_path(branch, 0.5, /*training=*/true);
  kept.sum().backward();
  EXPECT_TRUE(bit_identical(branch.grad(), kept.detach()));
  EXPECT_EQ(drop_path(branch.to(torch::kBFloat16), 0.5, true).scalar_type(), torch::kBFloat16);
}

TEST(DropPath, TheRateGrowsLinearlyWithDepth) {
  EXPECT_EQ(drop_path_rate(0.1, 0, 12), 0.0);
  EXPECT_DOUBLE_EQ(drop_path_rate(0.1, 11, 12), 0.1);
  EXPECT_DOUBLE_EQ(drop_path_rate(0.11, 5, 12), 0.05);
  EXPECT_EQ(drop_path_rate(0.1, 0, 1), 0.0);
}

/// Two forward passes over the same images.
template <typename Model>
bool repeats_itself(Model& model, const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto first = model.forward(images);
  return torch::equal(first, model.forward(images));
}

TEST(DropPath, OfAVisionTransformerActsInTrainingOnly) {
  torch::manual_seed(3);
  adaact::VisionTransformerOptions options;
  options.image_size = 32;
  options.width = 12;
  options.depth = 4;
  options.heads = 3;
  const auto images = torch::randn({8, 3, 32, 32});
  adaact::VisionTransformer plain(options);
  EXPECT_TRUE(repeats_itself(plain, images));
  options.drop_path = 0.5;
  adaact::VisionTransformer dropping(options);
  EXPECT_FALSE(repeats_itself(dropping, images));
  dropping.eval();
  EXPECT_TRUE(repeats_itself(dropping, images));
}

TEST(DropPath, OfAResNetActsInTrainingOnly) {
  torch::manual_seed(4);
  adaact::ResNetImageNetOptions options;
  options.blocks = {1, 1, 1, 1};
  options.classes = 10;
  options.drop_path = 0.5;
  adaact::ResNetImageNet model(options);
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model.named_parameters()) {
      if (parameter.key().find("bn3.weight") != std::string::npos) parameter.value().fill_(1.0);
    }
  }
  const auto images = torch::randn({8, 3, 32, 32});
  EXPECT_FALSE(repeats_itself(model, images));
  model.eval();
  EXPECT_TRUE(repeats_itself(model, images));
}

TEST(DropPath, OfTheRegistryReachesTheModel) {
  torch::manual_seed(5);
  adaact::ModelOptions options;
  options.drop_path = 0.9;
  const auto model = adaact::make_model("vit_small", options);
  EXPECT_FALSE(repeats_itself(*model, torch::randn({2, 3, 32, 32})));
}

}  // namespace
