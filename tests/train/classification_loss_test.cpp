#include "train/step/classification_loss.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/tolerance.h"
#include "train/step/classification_pass.h"

namespace {

using adaact::Loss;
using adaact::summed_loss;
using adaact::Targets;
using adaact::testing::all_close;

constexpr std::int64_t kMixedImages = 6;
constexpr std::int64_t kMixedClasses = 4;

torch::Tensor some_logits() {
  torch::manual_seed(7);
  return torch::randn({kMixedImages, kMixedClasses}, torch::kFloat64).requires_grad_();
}

Targets mixed(double own_share) {
  const auto labels = torch::tensor({0, 1, 2, 3, 1, 1}, torch::kLong);
  return {labels, labels.flip(0), torch::full({}, own_share, torch::kFloat64)};
}

/// What is aimed at, written down class by class.
torch::Tensor dense(const Targets& targets, double smoothing) {
  const auto smoothed = [&](const torch::Tensor& labels) {
    return torch::one_hot(labels, kMixedClasses).to(torch::kFloat64) * (1.0 - smoothing) +
           smoothing / kMixedClasses;
  };
  const auto share = targets.own_share.item<double>();
  return share * smoothed(targets.labels) + (1.0 - share) * smoothed(targets.partner_labels);
}

torch::Tensor gradient_of(const torch::Tensor& loss, const torch::Tensor& logits) {
  return torch::autograd::grad({loss}, {logits})[0];
}

TEST(ClassificationLoss, IsTheSoftmaxCrossEntropyToTheMixedTarget) {
  for (const double smoothing : {0.0, 0.1}) {
    const auto logits = some_logits();
    const auto targets = mixed(0.7);
    const auto loss = summed_loss(logits, targets, Loss::CrossEntropy, smoothing);
    const auto expected = -(dense(targets, smoothing) * torch::log_softmax(logits, 1)).sum();
    EXPECT_TRUE(all_close(loss, expected, 1e-12));
    EXPECT_TRUE(all_close(gradient_of(loss, logits), gradient_of(expected, logits), 1e-12));
  }
}

TEST(ClassificationLoss, OfSigmoidsIsInTheMeanOverTheClasses) {
  for (const double smoothing : {0.0, 0.1}) {
    const auto logits = some_logits();
    const auto targets = mixed(0.3);
    const auto loss = summed_loss(logits, targets, Loss::BinaryCrossEntropy, smoothing);
    const auto mean =
        torch::binary_cross_entropy_with_logits(logits, dense(targets, smoothing), {}, {});
    const auto expected = mean * static_cast<double>(kMixedImages);
    EXPECT_TRUE(all_close(loss, expected, 1e-12));
    EXPECT_TRUE(all_close(gradient_of(loss, logits), gradient_of(expected, logits), 1e-12));
  }
}

TEST(ClassificationLoss, OfNoKnowledgeIsKnown) {
  const auto logits = torch::zeros({kMixedImages, kMixedClasses}, torch::kFloat64);
  const auto images = static_cast<double>(kMixedImages);
  for (const auto& targets : {mixed(0.5), Targets{mixed(0.5).labels}}) {
    EXPECT_NEAR(summed_loss(logits, targets, Loss::CrossEntropy, 0.1).item<double>(),
                images * std::log(kMixedClasses), 1e-12);
    EXPECT_NEAR(summed_loss(logits, targets, Loss::BinaryCrossEntropy, 0.1).item<double>(),
                images * std::log(2.0), 1e-12);
  }
}

TEST(ClassificationLoss, PartsOfABatchAddUpToIt) {
  const auto logits = some_logits();
  const auto whole = mixed(0.4);
  for (const auto loss : {Loss::CrossEntropy, Loss::BinaryCrossEntropy}) {
    auto sum = torch::zeros({}, torch::kFloat64);
    for (const auto& [begin, end] : {std::pair(0, 2), std::pair(2, 6)}) {
      const Targets part{whole.labels.slice(0, begin, end),
                         whole.partner_labels.slice(0, begin, end), whole.own_share};
      sum = sum + summed_loss(logits.slice(0, begin, end), part, loss, 0.1);
    }
    EXPECT_TRUE(all_close(sum, summed_loss(logits, whole, loss, 0.1), 1e-14));
  }
}

TEST(ClassificationLoss, TheLabelThatHasMoreOfAnImageIsTheRightOne) {
  const auto targets = mixed(0.25);
  adaact::TrainingPass pass;
  pass.logits = torch::one_hot(targets.partner_labels, kMixedClasses).to(torch::kFloat32);
  EXPECT_EQ(pass.correct(targets).item<std::int64_t>(), kMixedImages);
  // Of the six labels 0 1 2 3 1 1 and their partners 1 1 3 2 1 0 two are the same.
  const auto of_own = pass.correct(mixed(0.75));
  EXPECT_EQ(of_own.item<std::int64_t>(), 2);
}

TEST(Targets, AreThoseOfABatch) {
  adaact::Batch batch;
  batch.labels = torch::tensor({3, 1}, torch::kLong);
  EXPECT_FALSE(Targets::of(batch, torch::kCPU).are_mixed());
  EXPECT_TRUE(Targets::of(batch, torch::kCPU).likelier().equal(batch.labels));
  batch.partner_labels = torch::tensor({1, 3}, torch::kLong);
  batch.own_share = 0.25;
  const auto targets = Targets::of(batch, torch::kCPU);
  EXPECT_TRUE(targets.are_mixed());
  EXPECT_EQ(targets.own_share.item<double>(), 0.25);
  EXPECT_TRUE(targets.likelier().equal(batch.partner_labels));
}

}  // namespace
