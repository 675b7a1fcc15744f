// A step taken part by part, as whoever captures CUDA graphs takes it.

#include "optim/base/step_parts.h"

#include <limits>

#include <adaact/adaact.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include "support/small_models.h"

namespace {

using adaact::HostWork;
using adaact::StepParts;
using adaact::Verdict;

struct PartsCase {
  std::string name;
  std::string optimizer;
  std::string options;
  HostWork host_work;
  torch::ScalarType dtype = torch::kFloat64;
};

const HostWork kOfLibTorch =
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    HostWork::Nothing;
#else
    HostWork::Everything;  // it has no fused operators
#endif

/// A loss that is linear in the weights: a pass over the same rows shows the same, whatever they are.
class StepPartsOf : public ::testing::TestWithParam<PartsCase> {
 protected:
  struct Rows {
    torch::Tensor x = torch::randn({10, 6}, GetParam().dtype);
    torch::Tensor target = torch::randn({10, 3}, GetParam().dtype);
  };

  StepPartsOf() { torch::manual_seed(4); }

  static torch::nn::Linear make_layer() {
    torch::nn::Linear layer(6, 3);
    layer->to(GetParam().dtype);
    return layer;
  }
  static void pass(torch::nn::Linear& layer, const Rows& rows) {
    (layer->forward(rows.x) * rows.target).sum(1).mean().backward();
  }
  static std::unique_ptr<torch::optim::Optimizer> optimizer_of(torch::nn::Linear& layer) {
    return adaact::make_optimizer(GetParam().optimizer, *layer, GetParam().options);
  }
  /// In memory of its own: zero_grad() of LibTorch 1.13 fills what is there.
  static void measure_alone(torch::nn::Linear& layer, const Rows& rows, StepParts& parts) {
    layer->weight.mutable_grad().reset();
    layer->bias.mutable_grad().reset();
    pass(layer, rows);
    parts.measure(Verdict::Host);
  }
  static void expect_equal_states(torch::optim::Optimizer& one, torch::optim::Optimizer& other) {
    const auto expected = dynamic_cast<adaact::HasNamedState&>(one).export_state();
    const auto actual = dynamic_cast<adaact::HasNamedState&>(other).export_state();
    EXPECT_EQ(actual.counters, expected.counters);
    EXPECT_FALSE(expected.entries.at("weight").empty());
    for (const auto& [parameter, entries] : expected.entries) {
      for (const auto& [name, tensor] : entries) {
        EXPECT_TRUE(torch::equal(actual.entries.at(parameter).at(name), tensor))
            << parameter << name;
      }
    }
  }
};

TEST_P(StepPartsOf, SayWhatTheHostDoes) {
  auto layer = make_layer();
  const auto optimizer = optimizer_of(layer);
  ASSERT_NE(StepParts::of(*optimizer), nullptr);
  EXPECT_EQ(StepParts::of(*optimizer)->host_work(), GetParam().host_work);
}

TEST_P(StepPartsOf, ResumedWithWhatAPassHasLeftAreTheStepOfThatPass) {
  auto with_passes = make_layer();
  auto with_records = make_layer();
  adaact::testing::copy_values(with_passes, with_records);
  const auto one = optimizer_of(with_passes);
  const auto other = optimizer_of(with_records);
  auto& parts = *StepParts::of(*other);

  const Rows rows[2];
  StepParts::Measured recorded[2];
  for (int turn = 0; turn < 2; ++turn) {
    measure_alone(with_records, rows[turn], parts);
    recorded[turn] = parts.measured();
  }
  for (const int turn : {0, 1, 1, 0, 1, 0, 0}) {
    one->zero_grad();
    pass(with_passes, rows[turn]);
    one->step();
    const auto observed = parts.layers_to_observe();
    if (observed.empty() || observed[0]) {
      parts.resume(recorded[turn]);
    } else {  // the pass for these rows that observes nothing
      measure_alone(with_records, rows[turn], parts);
    }
    parts.decide();
    EXPECT_TRUE(parts.accepted());
    parts.apply();
    parts.settle();
    ASSERT_TRUE(torch::equal(with_records->weight, with_passes->weight));
    ASSERT_TRUE(torch::equal(with_records->bias, with_passes->bias));
  }
  expect_equal_states(*one, *other);
}

TEST_P(StepPartsOf, MeasuringTakesWhatWasObserved) {
  auto layer = make_layer();
  const auto optimizer = optimizer_of(layer);
  auto* observing = dynamic_cast<adaact::ObservingOptimizer*>(optimizer.get());
  if (observing == nullptr) GTEST_SKIP() << "it observes nothing";
  pass(layer, Rows());
  StepParts::of(*optimizer)->measure(Verdict::Host);
  optimizer->step();
  EXPECT_FALSE(observing->coverage()[0].observed);
}

TEST_P(StepPartsOf, AreNotAppliedAfterARejection) {
  auto layer = make_layer();
  auto options = GetParam().options;
  options.insert(1, "\"non_finite_policy\": \"skip\", ");
  const auto optimizer = adaact::make_optimizer(GetParam().optimizer, *layer, options);
  auto& parts = *StepParts::of(*optimizer);
  pass(layer, Rows());
  layer->bias.grad()[1] = std::numeric_limits<double>::quiet_NaN();
  const auto before = layer->weight.detach().clone();
  parts.measure(Verdict::Host);
  parts.decide();
  EXPECT_FALSE(parts.accepted());
  parts.apply();
  parts.settle();
  EXPECT_TRUE(torch::equal(layer->weight, before));
  EXPECT_EQ(parts.steps(), 0);
  EXPECT_EQ(parts.skipped_steps(), 1);
  EXPECT_EQ(parts.generation(), 0);
}

TEST_P(StepPartsOf, KeepNoGradientAliveAfterTheStep) {
  auto layer = make_layer();
  const auto optimizer = optimizer_of(layer);
  pass(layer, Rows());
  layer->bias.grad()[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(optimizer->step(), adaact::NonFiniteError);
  EXPECT_EQ(layer->weight.grad().use_count(), 1U);
  optimizer->zero_grad();
  pass(layer, Rows());
  optimizer->step();
  const auto gradient = layer->weight.grad();
  layer->weight.mutable_grad().reset();
  // Adan and a first step of SGD may keep copies, but nobody the gradient itself.
  EXPECT_EQ(gradient.use_count(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, StepPartsOf,
    ::testing::Values(
        PartsCase{"adaact", "adaact", R"({"lr": 0.1})", HostWork::Nothing},
        PartsCase{"full_covariance", "adaact",
                  R"({"lr": 0.1, "covariance": "full", "refresh_period": 3})", HostWork::Decides},
        PartsCase{"foof", "foof", R"({"lr": 0.1, "covariance_period": 2})", HostWork::Decides},
        PartsCase{"kfac", "kfac", R"({"lr": 0.1, "covariance_period": 2})", HostWork::Decides},
        PartsCase{"adan", "adan", R"({"lr": 0.1})", HostWork::Nothing},
        PartsCase{"lamb", "lamb", R"({"lr": 0.1})", HostWork::Nothing},
        PartsCase{"sgd", "sgd", R"({"lr": 0.1})", kOfLibTorch},
        PartsCase{"adam", "adam", R"({"lr": 0.1})", kOfLibTorch},
        PartsCase{"adamw", "adamw", R"({"lr": 0.1})", kOfLibTorch}),
    [](const auto& info) { return info.param.name; });

TEST(StepParts, SamHasNone) {
  torch::nn::Linear layer(6, 3);
  EXPECT_EQ(StepParts::of(*adaact::make_optimizer("sam", *layer)), nullptr);
}

TEST(StepParts, LeftToADeviceNeedsOne) {
  torch::nn::Linear layer(6, 3);
  adaact::AdaAct optimizer(*layer);
  auto& parts = *StepParts::of(optimizer);
  layer->forward(torch::randn({4, 6})).sum().backward();
  EXPECT_THROW(parts.send_learning_rates(), c10::Error);
  EXPECT_THROW(parts.measure(Verdict::Device), c10::Error);
  optimizer.step();  // is as if nothing had been asked for
  EXPECT_EQ(optimizer.steps(), 1);
}

TEST(StepParts, OfFactorsObserveThoseThatAreDue) {
  torch::nn::Linear layer(6, 3);
  adaact::Foof optimizer(*layer, adaact::FoofOptions(0.1).covariance_period(3));
  std::vector<bool> observed;
  for (int step = 0; step < 5; ++step) {
    observed.push_back(StepParts::of(optimizer)->layers_to_observe()[0]);
    optimizer.zero_grad();
    layer->forward(torch::randn({4, 6})).sum().backward();
    optimizer.step();
  }
  EXPECT_EQ(observed, (std::vector<bool>{true, false, false, true, false}));
}

/// What the host decides before it: apply() then works with the same memory in every step.
class RecordedApply : public ::testing::TestWithParam<PartsCase> {
 protected:
  RecordedApply() { torch::manual_seed(4); }

  static torch::nn::Sequential make_model() {
    torch::nn::Sequential model(torch::nn::Conv2d(2, 4, 3), torch::nn::Flatten(),
                                torch::nn::Linear(16, 3));
    model->to(GetParam().dtype);
    return model;
  }
  static void step(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer, int number) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.1 / number);
    optimizer.zero_grad();
    model->forward(torch::randn({8, 2, 4, 4}).to(GetParam().dtype)).square().mean().backward();
    optimizer.step();
  }
};

TEST_P(RecordedApply, StaysValidWhileTheLearningRateFallsAndFactorsAreRefreshed) {
  auto model = make_model();
  const auto optimizer = adaact::make_optimizer(GetParam().optimizer, *model, GetParam().options);
  auto& parts = *StepParts::of(*optimizer);
  EXPECT_EQ(parts.generation(), 0);
  step(model, *optimizer, 1);
  const auto generation = parts.generation();
  EXPECT_NE(generation, 0);
  for (int number = 2; number <= 9; ++number) {
    step(model, *optimizer, number);
    EXPECT_EQ(parts.generation(), generation) << number;
  }
}

TEST_P(RecordedApply, EndsWithOtherParametersAndWithAnotherState) {
  auto model = make_model();
  const auto optimizer = adaact::make_optimizer(GetParam().optimizer, *model, GetParam().options);
  auto& parts = *StepParts::of(*optimizer);
  step(model, *optimizer, 1);
  const auto first = parts.generation();
  model->parameters()[1].set_requires_grad(false);  // the convolution's bias
  step(model, *optimizer, 2);
  const auto second = parts.generation();
  EXPECT_NE(second, first);
  auto& named = dynamic_cast<adaact::HasNamedState&>(*optimizer);
  named.import_state(named.export_state(), "itself");
  EXPECT_EQ(parts.generation(), 0);
  step(model, *optimizer, 3);
  EXPECT_NE(parts.generation(), first);
  EXPECT_NE(parts.generation(), second);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, RecordedApply,
    ::testing::Values(
        PartsCase{"full_covariance", "adaact", R"({"covariance": "full", "refresh_period": 3})",
                  HostWork::Decides, torch::kFloat32},
        PartsCase{"foof", "foof", R"({"covariance_period": 2, "inverse_period": 4})",
                  HostWork::Decides, torch::kFloat32},
        PartsCase{"kfac", "kfac", R"({"covariance_period": 2, "inverse_period": 4})",
                  HostWork::Decides, torch::kFloat32},
        PartsCase{"kfac_cholesky", "kfac",
                  R"({"covariance_period": 2, "inverse_period": 4, "inverse": "cholesky"})",
                  HostWork::Decides, torch::kFloat32},
        PartsCase{"kfac_clipped", "kfac", R"({"inverse_period": 4, "kl_clip": 1e-6})",
                  HostWork::Decides, torch::kFloat32},
        PartsCase{"kfac_in_double_precision", "kfac", R"({"inverse_period": 4})", HostWork::Decides,
                  torch::kFloat64},
        PartsCase{"foof_without_momentum", "foof",
                  R"({"inverse_period": 4, "momentum": 0, "kl_clip": 1e-6})", HostWork::Decides,
                  torch::kFloat32},
        PartsCase{"full_covariance_in_bfloat16", "adaact",
                  R"({"covariance": "full", "refresh_period": 3})", HostWork::Decides,
                  torch::kBFloat16}),
    [](const auto& info) { return info.param.name; });

TEST(RecordedApplyOfGroups, HasARateForEach) {
  torch::manual_seed(4);
  torch::nn::Sequential model(torch::nn::Linear(6, 4), torch::nn::Linear(4, 3));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model[0]->parameters());
  groups.emplace_back(model[1]->parameters());
  adaact::Kfac optimizer(*model, groups, adaact::KfacOptions(0.1));
  auto& parts = *StepParts::of(optimizer);
  std::int64_t generation = 0;
  for (int number = 0; number < 3; ++number) {
    optimizer.param_groups()[0].options().set_lr(number == 2 ? 0.0 : 0.1);
    optimizer.zero_grad();
    const auto before = model->parameters()[0].clone();
    const auto other_before = model->parameters()[2].clone();
    model->forward(torch::randn({8, 6})).square().mean().backward();
    optimizer.step();
    EXPECT_EQ(torch::equal(model->parameters()[0], before), number == 2) << number;
    EXPECT_FALSE(torch::equal(model->parameters()[2], other_before)) << number;
    if (number == 0) generation = parts.generation();
    EXPECT_EQ(parts.generation(), generation) << number;
  }
}

}  // namespace
