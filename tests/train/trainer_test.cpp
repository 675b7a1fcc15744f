#include <adaact/train/trainer.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/optim/libtorch.h>
#include <adaact/optim/registry.h>
#include <adaact/train/evaluate.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/tolerance.h"

namespace {

using adaact::EpochMetrics;
using adaact::Loader;
using adaact::LoaderOptions;
using adaact::StepMetrics;
using adaact::Trainer;
using adaact::TrainerOptions;
using adaact::TrainingCallback;
using adaact::testing::contains;
using adaact::testing::error_of;

constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kImages = 28;  // three batches and a half

std::shared_ptr<adaact::Dataset> images(std::int64_t size, adaact::Split split) {
  adaact::SyntheticOptions options;
  options.size = size;
  options.split = split;
  options.shape = {1, 28, 28};
  return adaact::make_synthetic(options);
}

LoaderOptions loader_options(std::int64_t batch) {
  LoaderOptions options;  // shuffled, not augmented
  options.batch_size = batch;
  return options;
}

/// Everything that was told, in order.
class Recorder : public TrainingCallback {
 public:
  void on_start(const Trainer& trainer) override { starts.push_back(trainer.state().step); }
  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    EXPECT_EQ(trainer.state().step, metrics.step);
    steps.push_back(metrics);
  }
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    EXPECT_EQ(trainer.state().epoch, metrics.epoch + 1);
    epochs.push_back(metrics);
  }

  std::vector<std::int64_t> starts;
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
};

/// A trainer with everything it needs.
struct Bench {
  explicit Bench(const TrainerOptions& options, const std::string& optimizer_name = "sgd",
                 std::int64_t batch = kBatch)
      : train(images(kImages, adaact::Split::Train), loader_options(batch)),
        test(images(20, adaact::Split::Test), loader_options(batch)) {
    torch::manual_seed(3);
    auto model_options = adaact::default_model_options("mlp");
    model_options.hidden = {12};
    model = adaact::make_model("mlp", model_options);
    optimizer = adaact::make_optimizer(
        optimizer_name, *model,
        optimizer_name == "sgd" ? R"({"lr": 0.5, "momentum": 0, "weight_decay": 0})" : "{}");
    trainer = std::make_unique<Trainer>(*model, *optimizer, train, test, options);
    trainer->add_callback(told);
  }

  std::vector<torch::Tensor> parameters() const {
    std::vector<torch::Tensor> copies;
    for (const auto& parameter : model->parameters()) copies.push_back(parameter.detach().clone());
    return copies;
  }

  Loader train;
  Loader test;
  std::shared_ptr<adaact::Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
  Recorder told;
};

TrainerOptions two_epochs() {
  TrainerOptions options;
  options.epochs = 2;
  options.update_norm_every = 1;
  return options;
}

double norm_of(const std::vector<torch::Tensor>& tensors) {
  double sum = 0.0;
  for (const auto& tensor : tensors) sum += tensor.to(torch::kFloat64).pow(2).sum().item<double>();
  return std::sqrt(sum);
}

TEST(Trainer, IsThePlainLoop) {
  Bench bench(two_epochs());
  Bench plain(two_epochs());
  EXPECT_TRUE(bench.trainer->run());

  std::size_t step = 0;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    plain.train.start(epoch);
    double loss_sum = 0.0;
    double correct_sum = 0.0;
    while (const auto batch = plain.train.next()) {
      plain.optimizer->zero_grad();
      const auto logits = plain.model->forward(batch->images);
      const auto loss = torch::cross_entropy_loss(logits, batch->labels);
      loss.backward();
      std::vector<torch::Tensor> gradients;
      for (const auto& parameter : plain.model->parameters()) gradients.push_back(parameter.grad());
      const auto& told = bench.told.steps.at(step);
      const auto correct = logits.argmax(1).eq(batch->labels).sum().item<double>();
      const auto size = static_cast<double>(batch->size());
      EXPECT_EQ(told.step, static_cast<std::int64_t>(step) + 1);
      EXPECT_EQ(told.epoch, epoch);
      EXPECT_NEAR(told.loss, loss.item<double>(), 1e-6);
      EXPECT_DOUBLE_EQ(told.top1, correct / size);
      EXPECT_NEAR(told.gradient_norm, norm_of(gradients), 1e-5 * norm_of(gradients));
      EXPECT_NEAR(told.update_norm.value(), 0.5 * norm_of(gradients), 1e-5 * norm_of(gradients));
      EXPECT_DOUBLE_EQ(told.learning_rate, 0.5);
      plain.optimizer->step();
      loss_sum += loss.item<double>() * size;
      correct_sum += correct;
      ++step;
    }
    const auto& told = bench.told.epochs.at(static_cast<std::size_t>(epoch));
    EXPECT_NEAR(told.train_loss, loss_sum / kImages, 1e-6);
    EXPECT_DOUBLE_EQ(told.train_top1, correct_sum / kImages);
    EXPECT_EQ(told.step, static_cast<std::int64_t>(step));
    const auto test = adaact::evaluate(*plain.model, plain.test, torch::kCPU);
    EXPECT_NEAR(told.test.loss, test.loss, 1e-5);
    EXPECT_EQ(told.test.images, 20);
  }
  EXPECT_EQ(bench.told.steps.size(), step);
  EXPECT_EQ(bench.trainer->steps(), 8);
}

TEST(Trainer, EvaluationCountsTopOneAndTopFive) {
  Bench bench(two_epochs());
  const auto test = adaact::evaluate(*bench.model, bench.test, torch::kCPU);
  bench.model->eval();
  std::int64_t first = 0;
  std::int64_t five = 0;
  double loss = 0.0;
  bench.test.start(0);
  while (const auto batch = bench.test.next()) {
    const auto logits = bench.model->forward(batch->images);
    loss += torch::cross_entropy_loss(logits, batch->labels, {}, at::Reduction::Sum).item<double>();
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const auto own = logits[i][batch->labels[i].item<std::int64_t>()];
      const auto better = logits[i].gt(own).sum().item<std::int64_t>();
      first += better < 1 ? 1 : 0;
      five += better < 5 ? 1 : 0;
    }
  }
  EXPECT_DOUBLE_EQ(test.top1, static_cast<double>(first) / 20);
  EXPECT_DOUBLE_EQ(test.top5, static_cast<double>(five) / 20);
  EXPECT_GT(five, first);
  EXPECT_NEAR(test.loss, loss / 20, 1e-6);
}

TEST(Trainer, EvaluationPutsTheModesOfAllModulesBack) {
  Bench bench(two_epochs());
  const auto frozen = bench.model->children().front();
  frozen->eval();
  adaact::evaluate(*bench.model, bench.test, torch::kCPU);
  EXPECT_TRUE(bench.model->is_training());
  EXPECT_FALSE(frozen->is_training());
  EXPECT_TRUE(bench.model->children().back()->is_training());
}

TEST(Trainer, SecondMomentsAreThoseOfTheLastStep) {
  Bench bench(two_epochs());
  Bench plain(two_epochs());
  bench.trainer->run();
  const auto& told = bench.told.epochs.at(0).second_moments;
  ASSERT_EQ(told.size(), 2U);

  plain.train.start(0);
  double expected = 0.0;
  while (const auto batch = plain.train.next()) {
    expected = batch->images.pow(2).mean().item<double>();
  }
  EXPECT_EQ(told[0].first, plain.model->named_parameters().begin()->key());
  EXPECT_NEAR(told[0].second, expected, 1e-5 * expected);
}

TEST(Trainer, AccumulatesToTheGradientOfOneLargeBatch) {
  auto options = two_epochs();
  options.accumulation = 3;
  Bench small(options, "adaact", /*batch=*/4);  // 12, 12 and 4 images a step
  Bench large(two_epochs(), "adaact", /*batch=*/12);
  small.trainer->run();
  large.trainer->run();
  ASSERT_EQ(small.told.steps.size(), large.told.steps.size());
  for (std::size_t i = 0; i < small.told.steps.size(); ++i) {
    EXPECT_NEAR(small.told.steps[i].loss, large.told.steps[i].loss, 1e-4);
    EXPECT_DOUBLE_EQ(small.told.steps[i].top1, large.told.steps[i].top1);
  }
  EXPECT_NEAR(small.told.epochs[1].second_moments[1].second,
              large.told.epochs[1].second_moments[1].second, 1e-3);
}

TEST(Trainer, ClipsTheGradientOfAllParametersTogether) {
  auto options = two_epochs();
  options.clip_norm = 0.01;
  Bench bench(options);
  bench.trainer->run();
  for (const auto& step : bench.told.steps) {
    EXPECT_GT(step.gradient_norm, 0.01);  // as it was before clipping
    EXPECT_NEAR(step.update_norm.value(), 0.5 * 0.01, 1e-6);
  }
}

TEST(Trainer, SmoothsLabelsInTrainingAlone) {
  auto options = two_epochs();
  options.label_smoothing = 0.2;
  Bench smooth(options);
  Bench plain(two_epochs());
  plain.train.start(0);
  const auto batch = plain.train.next();
  const auto log_probabilities = torch::log_softmax(plain.model->forward(batch->images), 1);
  const auto own = -log_probabilities.gather(1, batch->labels.unsqueeze(1)).mean().item<double>();
  const auto all = -log_probabilities.mean().item<double>();
  smooth.trainer->run();
  EXPECT_NEAR(smooth.told.steps[0].loss, 0.8 * own + 0.2 * all, 1e-6);
  EXPECT_NEAR(smooth.told.epochs[1].test.loss,
              adaact::evaluate(*smooth.model, smooth.test, torch::kCPU).loss, 1e-9);
}

/// Of every image of a step alike, whatever the batches are.
TEST(Trainer, AccumulatesBinaryCrossEntropyToTheMeanOfTheStep) {
  auto options = two_epochs();
  options.loss = adaact::Loss::BinaryCrossEntropy;
  Bench large(options, "adaact", /*batch=*/12);
  options.accumulation = 3;
  Bench small(options, "adaact", /*batch=*/4);
  small.trainer->run();
  large.trainer->run();
  ASSERT_EQ(small.told.steps.size(), large.told.steps.size());
  EXPECT_NEAR(large.told.steps[0].loss, std::log(2.0), 0.3) << "a mean over classes, too";
  for (std::size_t i = 0; i < small.told.steps.size(); ++i) {
    EXPECT_NEAR(small.told.steps[i].loss, large.told.steps[i].loss, 1e-5);
  }
}

TEST(Trainer, EvaluatesTheAverageAndTrainsTheWeights) {
  auto options = two_epochs();
  Bench plain(options);
  options.ema_decay = 0.5;
  Bench averaged(options);
  plain.trainer->run();
  averaged.trainer->run();
  const auto expected = plain.parameters();
  const auto actual = averaged.parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].equal(expected[i]));
  EXPECT_EQ(averaged.told.epochs[1].train_loss, plain.told.epochs[1].train_loss);
  EXPECT_EQ(averaged.told.steps[7].update_norm, plain.told.steps[7].update_norm);
  EXPECT_NE(averaged.told.epochs[1].test.loss, plain.told.epochs[1].test.loss);
  const auto& average = averaged.trainer->state().average;
  for (const auto& parameter : plain.model->named_parameters()) {
    const torch::NoGradGuard no_grad;
    parameter.value().copy_(average.at(parameter.key()));
  }
  EXPECT_EQ(averaged.told.epochs[1].test.loss,
            adaact::evaluate(*plain.model, plain.test, torch::kCPU).loss);
}

TEST(Trainer, AnAverageIsPartOfTheState) {
  auto options = two_epochs();
  options.ema_decay = 0.5;
  Bench bench(options);
  bench.trainer->run();
  auto state = bench.trainer->state();
  EXPECT_EQ(bench.trainer->problem_with(state), "");
  EXPECT_TRUE(contains(Bench(two_epochs()).trainer->problem_with(state), "expected none"));
  state.average.clear();
  EXPECT_TRUE(contains(bench.trainer->problem_with(state), "'average' lacks '"));
  EXPECT_EQ(bench.trainer->problem_with({}), "") << "where it begins there is none yet";
}

TEST(Trainer, FollowsTheSchedule) {
  auto options = two_epochs();
  options.schedule = adaact::per_epoch(adaact::cosine_schedule(2), /*steps_per_epoch=*/4);
  Bench bench(options);
  bench.trainer->run();
  EXPECT_DOUBLE_EQ(bench.told.steps[3].learning_rate, 0.5);
  EXPECT_DOUBLE_EQ(bench.told.steps[4].learning_rate, 0.25);  // ½(1 + cos(π/2))
}

TEST(Trainer, StopsBetweenAnyTwoStepsAndGoesOn) {
  Bench whole(two_epochs(), "adaact");
  whole.trainer->run();
  std::int64_t asked = 0;
  auto options = two_epochs();
  const std::set<std::int64_t> stops{1, 3, 8, 12, 14};  // two of them in evaluations
  options.should_stop = [&] { return stops.count(++asked) > 0; };
  Bench parts(options, "adaact");
  int runs = 1;
  while (!parts.trainer->run()) ++runs;
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(parts.told.steps.size(), whole.told.steps.size());
  EXPECT_EQ(parts.told.epochs.size(), 2U);
  EXPECT_EQ(parts.told.epochs[1].second_moments, whole.told.epochs[1].second_moments);
  EXPECT_EQ(parts.told.epochs[1].train_loss, whole.told.epochs[1].train_loss);
  const auto expected = whole.parameters();
  const auto actual = parts.parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].equal(expected[i]));
}

TEST(Trainer, EndsBetweenEpochsOnceItIsEnough) {
  auto options = two_epochs();
  bool enough = false;
  options.is_enough = [&] { return enough; };
  Bench bench(options);
  class EnoughAfterAStep : public TrainingCallback {
   public:
    explicit EnoughAfterAStep(bool& enough) : enough_(enough) {}
    void on_step(const Trainer& /*trainer*/, const StepMetrics& /*metrics*/) override {
      enough_ = true;
    }

   private:
    bool& enough_;
  } callback(enough);
  bench.trainer->add_callback(callback);
  EXPECT_FALSE(bench.trainer->finished());
  EXPECT_TRUE(bench.trainer->run());
  EXPECT_EQ(bench.told.epochs.size(), 1U);  // and that one is whole
  EXPECT_EQ(bench.trainer->state().epoch, 1);
  EXPECT_TRUE(bench.trainer->finished());
  enough = false;
  EXPECT_FALSE(bench.trainer->finished());
}

TEST(Trainer, SamReportsTheLossWhereTheStepBegan) {
  Bench sam(two_epochs(), "sam");
  Bench plain(two_epochs());
  plain.train.start(0);
  const auto batch = plain.train.next();
  const auto loss = torch::cross_entropy_loss(plain.model->forward(batch->images), batch->labels);
  sam.trainer->run();
  EXPECT_NEAR(sam.told.steps[0].loss, loss.item<double>(), 1e-6);
}

TEST(Trainer, Bf16StaysCloseAndKeepsFloat32Parameters) {
  auto options = two_epochs();
  options.bf16 = true;
  Bench bf16(options);
  Bench fp32(two_epochs());
  bf16.trainer->run();
  fp32.trainer->run();
  EXPECT_NE(bf16.told.steps[0].loss, fp32.told.steps[0].loss);
  EXPECT_NEAR(bf16.told.steps[0].loss, fp32.told.steps[0].loss, 0.02 * fp32.told.steps[0].loss);
  for (const auto& parameter : bf16.model->parameters()) {
    EXPECT_EQ(parameter.scalar_type(), torch::kFloat32);
  }
}

TEST(Trainer, WhatACallbackThrowsEndsTheTraining) {
  class Thrower : public TrainingCallback {
    void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
      TORCH_CHECK(metrics.step < 3, "enough");
    }
  } thrower;
  Bench bench(two_epochs());
  bench.trainer->add_callback(thrower);
  EXPECT_TRUE(contains(error_of([&] { bench.trainer->run(); }), "enough"));
  EXPECT_EQ(bench.trainer->state().step, 3);
}

TEST(Trainer, BadOptionsAreErrors) {
  const auto error = [](auto&& change) {
    auto options = two_epochs();
    change(options);
    return error_of([&] { Bench bench(options); });
  };
  EXPECT_TRUE(contains(error([](auto& o) { o.epochs = 0; }), "epochs is 0, expected ≥ 1"));
  EXPECT_TRUE(contains(error([](auto& o) { o.accumulation = 0; }), "accumulation is 0"));
  EXPECT_TRUE(contains(error([](auto& o) { o.clip_norm = 0; }), "clip_norm is 0"));
  EXPECT_TRUE(contains(error([](auto& o) { o.update_norm_every = 0; }), "update_norm_every is 0"));
  EXPECT_TRUE(contains(error([](auto& o) { o.ema_decay = 1; }), "ema_decay is 1, expected [0, 1)"));
}

TrainerOptions with_variances() {
  auto options = two_epochs();
  options.activation_variances = true;
  return options;
}

void expect_equal(const std::vector<adaact::ActivationVariance>& ours,
                  const std::vector<adaact::ActivationVariance>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].layer, theirs[i].layer);
    EXPECT_EQ(ours[i].mean, theirs[i].mean);
    EXPECT_EQ(ours[i].lowest_mean, theirs[i].lowest_mean);
    EXPECT_EQ(ours[i].highest_mean, theirs[i].highest_mean);
    EXPECT_EQ(ours[i].lowest, theirs[i].lowest);
    EXPECT_EQ(ours[i].highest, theirs[i].highest);
    EXPECT_EQ(ours[i].lowest_moment, theirs[i].lowest_moment);
    EXPECT_EQ(ours[i].highest_moment, theirs[i].highest_moment);
  }
}

TEST(Trainer, GraphsOfSeveralBatchesNeedAnImageForEveryRank) {
  Bench bench({});
  TrainerOptions options;
  options.device = torch::Device(torch::kCUDA, 0);
  options.accumulation = 3;
  options.clip_norm = 1.0;
  const auto obstacle_in_parts = [&](std::int64_t parts) {
    auto data = loader_options(/*batch=*/4);
    data.parts = parts;
    const Loader loader(images(kImages, adaact::Split::Train), data);
    return Trainer::obstacle_to_graph(*bench.optimizer, loader, options);
  };
  constexpr char kTooFew[] = "none of them has an image for every rank";
  EXPECT_TRUE(contains(obstacle_in_parts(5), kTooFew));
  EXPECT_FALSE(contains(obstacle_in_parts(4), kTooFew));
  options.accumulation = 1;
  EXPECT_FALSE(contains(obstacle_in_parts(5), kTooFew));
}

TEST(Trainer, MeasuresActivationVariancesOfEveryStep) {
  Bench bench(with_variances());
  ASSERT_TRUE(bench.trainer->run());
  Bench plain(two_epochs());

  // The first layer's input is the batch itself, whatever was learned.
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<double> means;
    double lowest = 1e9;
    double highest = 0.0;
    double lowest_moment = 1e9;
    double highest_moment = 0.0;
    plain.train.start(epoch);
    while (const auto batch = plain.train.next()) {
      const auto pixels = batch->images.flatten(1).to(torch::kFloat64);
      const auto variance = (pixels - pixels.mean(0)).square().mean(0);
      means.push_back(variance.mean().item<double>());
      lowest = std::min(lowest, variance.min().item<double>());
      highest = std::max(highest, variance.max().item<double>());
      const auto moment = pixels.square().mean(0);
      lowest_moment = std::min(lowest_moment, moment.min().item<double>());
      highest_moment = std::max(highest_moment, moment.max().item<double>());
    }
    const auto& told = bench.told.epochs.at(static_cast<std::size_t>(epoch)).activation_variances;
    ASSERT_EQ(told.size(), 2U);
    const auto& first = told.front();
    EXPECT_EQ(first.layer, bench.told.epochs.front().second_moments.front().first);
    const auto mean_of = [](const std::vector<double>& values) {
      return std::accumulate(values.begin(), values.end(), 0.0) /
             static_cast<double>(values.size());
    };
    EXPECT_NEAR(first.mean, mean_of(means), 1e-5);
    EXPECT_NEAR(first.lowest_mean, *std::min_element(means.begin(), means.end()), 1e-5);
    EXPECT_NEAR(first.highest_mean, *std::max_element(means.begin(), means.end()), 1e-5);
    EXPECT_NEAR(first.lowest, lowest, 1e-5);
    EXPECT_NEAR(first.highest, highest, 1e-5);
    EXPECT_NEAR(first.lowest_moment, lowest_moment, 1e-5);
    EXPECT_NEAR(first.highest_moment, highest_moment, 1e-5);
  }
}

TEST(Trainer, WithoutBeingAskedItMeasuresNoVariances) {
  Bench bench(two_epochs());
  ASSERT_TRUE(bench.trainer->run());
  EXPECT_TRUE(bench.told.epochs.front().activation_variances.empty());
}

TEST(Trainer, ActivationVariancesOutliveAnInterruption) {
  Bench whole(with_variances());
  ASSERT_TRUE(whole.trainer->run());

  bool stop = false;
  auto options = with_variances();
  options.should_stop = [&] { return stop; };
  Bench first(options);
  class StopAfterTwo : public TrainingCallback {
   public:
    explicit StopAfterTwo(bool& stop) : stop_(stop) {}
    void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
      stop_ = metrics.step == 2;
    }

   private:
    bool& stop_;
  } stopper(stop);
  first.trainer->add_callback(stopper);
  ASSERT_FALSE(first.trainer->run());
  stop = false;

  Bench second(with_variances());
  for (std::size_t i = 0; i < first.model->parameters().size(); ++i) {
    second.model->parameters()[i].detach().copy_(first.model->parameters()[i].detach());
  }
  second.trainer->set_state(first.trainer->state());
  ASSERT_TRUE(second.trainer->run());
  expect_equal(second.told.epochs.front().activation_variances,
               whole.told.epochs.front().activation_variances);
}

}  // namespace
