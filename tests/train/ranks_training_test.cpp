// Training on several ranks, which are threads here, against one process.

#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <adaact/data/synthetic.h>
#include <adaact/models/model.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <adaact/train/trainer.h>
#include <gtest/gtest.h>

#include "layers/batch_norm.h"
#include "layers/shared_batch_statistics.h"
#include "support/errors.h"
#include "support/thread_ranks.h"
#include "support/tolerance.h"

namespace ranks_training {  // its words are other tests' words too, and they are compiled as one
namespace {

using adaact::EpochMetrics;
using adaact::Loader;
using adaact::LoaderOptions;
using adaact::StepMetrics;
using adaact::Trainer;
using adaact::TrainerOptions;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::on_ranks;
using adaact::testing::ThreadRank;
using Tensors = std::vector<torch::Tensor>;

constexpr std::int64_t kImages = 32;
constexpr std::int64_t kBatch =
    7;  // no number of ranks divides it, and the last batch has four images

/// In float64, with weights that no random numbers are drawn for: the generator is everybody's.
class WideModel : public adaact::Model {
 public:
  explicit WideModel(bool with_norm) : Model("head"), with_norm_(with_norm) {
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 3).stride(2)));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(3));
    head_ = register_module("head", torch::nn::Linear(27, 10));
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    double phase = 0.0;
    for (auto& parameter : parameters()) {
      const auto places = torch::arange(parameter.numel(), torch::kFloat64).view_as(parameter);
      parameter.copy_((places * 0.7 + phase).sin() * 0.3);
      phase += 1.0;
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    auto x = conv_->forward(images.to(torch::kFloat64));
    if (with_norm_) x = adaact::batch_norm(norm_, x);
    return head_->forward(x.tanh().flatten(1));
  }

 private:
  bool with_norm_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

struct Settings {
  std::string optimizer = "adaact";
  std::string options = "{}";
  TrainerOptions trainer;
  bool with_norm = false;
};

struct Told : adaact::TrainingCallback {
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    steps.push_back(metrics);
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    epochs.push_back(metrics);
  }
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
};

/// Where a training stands, and what was told of it.
struct Outcome {
  bool finished = false;
  Tensors weights;  // and buffers
  adaact::OptimizerState optimizer;
  adaact::TrainerState state;
  Told told;
};

LoaderOptions part_of(const adaact::Communicator& ranks) {
  LoaderOptions options;
  options.batch_size = kBatch;
  options.part = ranks.rank();
  options.parts = ranks.size();
  return options;
}

std::shared_ptr<adaact::Dataset> images(adaact::Split split) {
  adaact::SyntheticOptions options;
  options.size = kImages;
  options.split = split;
  options.shape = {1, 8, 8};
  return adaact::make_synthetic(options);
}

Outcome trained_by(const std::shared_ptr<adaact::Communicator>& rank, const Settings& settings,
                   const Outcome* from) {
  Loader train(images(adaact::Split::Train), part_of(*rank));
  Loader test(images(adaact::Split::Test), part_of(*rank));
  WideModel model(settings.with_norm);
  const auto optimizer = adaact::make_optimizer(settings.optimizer, model, settings.options);
  auto options = settings.trainer;
  options.ranks = rank;
  Trainer trainer(model, *optimizer, train, test, options);
  Tensors tensors = model.parameters();
  for (const auto& buffer : model.buffers()) tensors.push_back(buffer);
  if (from != nullptr) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(from->weights[i]);
    dynamic_cast<adaact::HasNamedState&>(*optimizer).import_state(from->optimizer, "before");
    trainer.set_state(from->state);
  }
  Outcome outcome;
  trainer.add_callback(outcome.told);
  outcome.finished = trainer.run();
  for (const auto& tensor : tensors) outcome.weights.push_back(tensor.detach().clone());
  outcome.optimizer = dynamic_cast<adaact::HasNamedState&>(*optimizer).export_state();
  outcome.state = trainer.state();
  return outcome;
}

/// By rank.
std::vector<Outcome> train(std::int64_t ranks, const Settings& settings,
                           const Outcome* from = nullptr) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const std::shared_ptr<ThreadRank>& rank) {
    outcomes[static_cast<std::size_t>(rank->rank())] = trained_by(rank, settings, from);
  });
  return outcomes;
}

void expect_close(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(adaact::testing::all_close(actual[i].to(torch::kFloat64),
                                           expected[i].to(torch::kFloat64), 1e-11))
        << "tensor " << i;
  }
}

TrainerOptions ten_epochs() {
  TrainerOptions options;
  options.epochs = 10;
  return options;
}

struct Case {
  const char* name;
  const char* optimizer;
  const char* options;
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class RanksTraining : public ::testing::TestWithParam<Case> {
 protected:
  Settings settings() const {
    Settings settings;
    settings.optimizer = GetParam().optimizer;
    settings.options = GetParam().options;
    settings.trainer = ten_epochs();
    return settings;
  }
};

TEST_P(RanksTraining, AnyNumberOfRanksComesToTheSameWeights) {
  const auto alone = train(1, settings())[0];
  EXPECT_EQ(alone.state.step, 50);
  for (const std::int64_t ranks : {2, 3, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const auto& outcome : train(ranks, settings())) {
      expect_close(outcome.weights, alone.weights);
    }
  }
}

TEST_P(RanksTraining, AccumulationAndClippingIncluded) {
  auto together = settings();
  together.trainer.accumulation = 2;
  together.trainer.clip_norm = 0.05;
  const auto alone = train(1, together)[0];
  EXPECT_GT(alone.told.steps.front().gradient_norm, 0.05);
  for (const std::int64_t ranks : {2, 4}) {
    expect_close(train(ranks, together)[1].weights, alone.weights);
  }
}

// KFAC with more damping than by default: the factors of so few images are so ill-conditioned that rounding alone grows
// to 2e-10 in fifty steps.
INSTANTIATE_TEST_SUITE_P(
    Optimizers, RanksTraining,
    ::testing::Values(Case{"adaact", "adaact", R"({"lr": 0.05})"},
                      Case{"adaact_full", "adaact", R"({"lr": 0.05, "covariance": "full"})"},
                      Case{"adan", "adan", "{}"}, Case{"lamb", "lamb", "{}"},
                      Case{"foof", "foof", R"({"lr": 0.01})"},
                      Case{"kfac", "kfac", R"({"lr": 0.01, "damping": 0.1})"},
                      Case{"sgd", "sgd", R"({"lr": 0.1})"}, Case{"adam", "adam", R"({"lr": 0.01})"},
                      Case{"adamw", "adamw", R"({"lr": 0.01})"}, Case{"sam", "sam", "{}"}),
    [](const auto& info) { return info.param.name; });

TEST(TrainingOnRanks, MetricsAreThoseOfAllRanks) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.trainer.epochs = 2;
  const auto alone = train(1, settings)[0].told;
  for (const auto& outcome : train(3, settings)) {
    ASSERT_EQ(outcome.told.steps.size(), alone.steps.size());
    for (std::size_t i = 0; i < alone.steps.size(); ++i) {
      EXPECT_NEAR(outcome.told.steps[i].loss, alone.steps[i].loss, 1e-5);
      EXPECT_DOUBLE_EQ(outcome.told.steps[i].top1, alone.steps[i].top1);
      EXPECT_NEAR(outcome.told.steps[i].gradient_norm, alone.steps[i].gradient_norm, 1e-9);
    }
    ASSERT_EQ(outcome.told.epochs.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto &actual = outcome.told.epochs[i], &expected = alone.epochs[i];
      EXPECT_NEAR(actual.train_loss, expected.train_loss, 1e-5);
      EXPECT_NEAR(actual.test.loss, expected.test.loss, 1e-5);
      EXPECT_DOUBLE_EQ(actual.test.top1, expected.test.top1);
      EXPECT_EQ(actual.test.images, expected.test.images);
      ASSERT_EQ(actual.second_moments.size(), expected.second_moments.size());
      for (std::size_t k = 0; k < expected.second_moments.size(); ++k) {
        EXPECT_EQ(actual.second_moments[k].first, expected.second_moments[k].first);
        EXPECT_NEAR(actual.second_moments[k].second, expected.second_moments[k].second, 1e-6);
      }
    }
  }
}

TEST(TrainingOnRanks, BatchNormalisationTakesTheStatisticsOfAllWhereAsked) {
  Settings settings;
  settings.trainer = ten_epochs();
  settings.with_norm = true;
  const auto alone = train(1, settings)[0];
  const auto apart = train(3, settings)[0];
  EXPECT_GT((apart.weights[0] - alone.weights[0]).abs().max().item<double>(), 1e-6);
  settings.trainer.sync_batchnorm = true;
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const auto& outcome : train(ranks, settings)) {
      expect_close(outcome.weights, alone.weights);
    }
  }
}

TEST(TrainingOnRanks, ARunGoesOnWithAnotherNumberOfRanks) {
  Settings settings;
  settings.trainer = ten_epochs();
  const auto whole = train(1, settings)[0];
  Outcome last;
  std::int64_t stop_at = 0;
  for (const std::int64_t ranks : {3, 1, 4, 2}) {
    auto part = settings;
    stop_at += 13;
    std::mutex mutex;
    std::int64_t asked = 0;
    part.trainer.should_stop = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return ++asked > 13 * ranks && stop_at < 50;
    };
    const auto outcomes = train(ranks, part, last.weights.empty() ? nullptr : &last);
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.state.step, outcomes[0].state.step);
    last = outcomes[0];
  }
  EXPECT_TRUE(last.finished);
  expect_close(last.weights, whole.weights);
}

TEST(TrainingOnRanks, AWishOfOneRankStopsAllBeforeTheSameStep) {
  std::vector<std::int64_t> steps(3);
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    Settings settings;
    settings.trainer = ten_epochs();
    int asked = 0;
    settings.trainer.should_stop = [&] { return rank->rank() == 1 && ++asked > 7; };
    const auto outcome = trained_by(rank, settings, nullptr);
    EXPECT_FALSE(outcome.finished);
    steps[static_cast<std::size_t>(rank->rank())] = outcome.state.step;
  });
  EXPECT_GT(steps[0], 0);
  EXPECT_EQ(steps, std::vector<std::int64_t>(3, steps[0]));
}

TEST(TrainingOnRanks, LoadersMustGiveTheRanksOwnPart) {
  const auto error = error_of([] {
    on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
      Loader whole(images(adaact::Split::Train), LoaderOptions());
      WideModel model(/*with_norm=*/false);
      const auto optimizer = adaact::make_optimizer("sgd", model);
      TrainerOptions options;
      options.ranks = rank;
      Trainer(model, *optimizer, whole, whole, options);
    });
  });
  EXPECT_TRUE(contains(error, "a loader gives part 0 of 1, expected part")) << error;
}

}  // namespace
}  // namespace ranks_training
