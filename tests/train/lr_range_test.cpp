#include <adaact/train/lr_range_test.h>

#include <cmath>
#include <limits>

#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/optim/libtorch.h>
#include <adaact/optim/registry.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"

namespace {

using adaact::lr_range_test;
using adaact::LrRangeOptions;
using adaact::LrRangeResult;
using adaact::testing::contains;
using adaact::testing::error_of;

constexpr std::int64_t kPoints = 64;

/// Two classes told apart by a plane through the origin.
class Plane : public adaact::Model {
 public:
  Plane() : Model("fc"), fc_(torch::nn::LinearOptions(4, 2).bias(false)) {
    register_module("fc", fc_);
    const torch::NoGradGuard no_grad;
    fc_->weight[0].fill_(2.0);
    fc_->weight[1].fill_(-2.0);
  }
  torch::Tensor forward(const torch::Tensor& images) override {
    return fc_->forward(images.flatten(1));
  }

 private:
  torch::nn::Linear fc_;
};

/// Four random numbers each, with labels that have nothing to do with them.
std::shared_ptr<adaact::ImageTensorDataset> random_points() {
  torch::manual_seed(5);
  adaact::DatasetInfo info{"points", {1, 2, 2}, {"0", "1"}, {{0.0F}, {1.0F}}};
  return std::make_shared<adaact::ImageTensorDataset>(
      info, torch::randint(256, {kPoints, 1, 2, 2}, torch::kByte),
      torch::randint(2, {kPoints}, torch::kLong));
}

/// All points in one batch, so that there is no noise.
adaact::LoaderOptions one_batch() {
  auto options = adaact::LoaderOptions::evaluation();
  options.batch_size = kPoints;
  return options;
}

/// Where the labels are random, the loss is lowest where both classes are about as likely. There the
/// curvature of the cross-entropy is half of that of the points' second moments.
double stability_limit(const adaact::ImageTensorDataset& points) {
  const auto x = points.images().flatten(1).to(torch::kFloat64) / 255.0;
  const auto eigenvalues = std::get<0>(torch::linalg_eigh(x.t().matmul(x) / kPoints));
  return 2.0 / (0.5 * eigenvalues.max().item<double>());
}

LrRangeResult test_plane(const LrRangeOptions& range, adaact::TrainerOptions options = {}) {
  const auto points = random_points();
  adaact::Loader loader(points, one_batch());
  Plane plane;
  adaact::SGD sgd(plane, torch::optim::SGDOptions(0.5));
  return lr_range_test(plane, sgd, loader, range, std::move(options));
}

TEST(LrRangeTest, FindsTheLimitOfStability) {
  const auto found = test_plane({1e-4, 1e3, 120});
  const auto limit = stability_limit(*random_points());
  ASSERT_TRUE(found.exploded_at);
  EXPECT_GT(*found.exploded_at, limit);
  EXPECT_LT(*found.exploded_at, 15.0 * limit);
  ASSERT_TRUE(found.steepest);
  for (const auto suggestion : {*found.steepest, *found.tenth_of_explosion()}) {
    EXPECT_LT(suggestion, 1.5 * limit);
    EXPECT_GT(suggestion, limit / 50.0);
  }
  EXPECT_FALSE(found.interrupted);
}

TEST(LrRangeTest, RatesGrowByTheSameFactor) {
  const auto found = test_plane({1e-3, 1e-1, 21});
  ASSERT_EQ(found.points.size(), 21U);
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const auto expected = 1e-3 * std::pow(10.0, static_cast<double>(i) / 10.0);
    EXPECT_NEAR(found.points[i].learning_rate, expected, 1e-9);
  }
  // A loss is what the step with its rate left.
  EXPECT_LT(found.points.front().loss, found.first_loss);
  EXPECT_FALSE(found.exploded_at);
  EXPECT_FALSE(found.tenth_of_explosion());
}

TEST(LrRangeTest, AGradientThatIsNotFiniteIsAnExplosion) {
  const auto found = test_plane({1e-2, 1e38, 30});
  ASSERT_TRUE(found.exploded_at);
  EXPECT_LT(found.points.size(), 30U);
}

TEST(LrRangeTest, SomebodyElseMayStopIt) {
  adaact::TrainerOptions options;
  int asked = 0;
  options.should_stop = [&] { return ++asked > 5; };
  EXPECT_TRUE(test_plane({1e-3, 1e-1, 50}, options).interrupted);
}

TEST(LrRangeTest, WorksWithEveryOptimizer) {
  adaact::SyntheticOptions data;
  data.size = 160;
  data.shape = {1, 28, 28};
  adaact::LoaderOptions batches;
  batches.batch_size = 16;
  for (const auto& name : adaact::optimizer_names()) {
    adaact::Loader loader(adaact::make_synthetic(data), batches);
    torch::manual_seed(3);
    auto model_options = adaact::default_model_options("mlp");
    model_options.hidden = {12};
    const auto model = adaact::make_model("mlp", model_options);
    const auto optimizer = adaact::make_optimizer(name, *model);
    const auto found = lr_range_test(*model, *optimizer, loader, {1e-5, 10.0, 60});
    ASSERT_TRUE(found.steepest) << name;
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& point : found.points) lowest = std::min(lowest, point.smoothed);
    EXPECT_LT(lowest, 0.9 * found.first_loss) << name;
  }
}

TEST(LrRangeTest, OptionsAreChecked) {
  EXPECT_TRUE(contains(error_of([] { test_plane({0.0, 1.0, 20}); }), "from is 0, expected"));
  EXPECT_TRUE(contains(error_of([] { test_plane({1.0, 0.5, 20}); }), "to is 0.5, expected"));
  EXPECT_TRUE(contains(error_of([] { test_plane({0.1, 1.0, 3}); }), "steps is 3, expected 10"));
}

}  // namespace
