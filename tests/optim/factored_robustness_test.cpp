// What breaks optimizers with factors: in-place activations, periods, slices, late layers, bad states.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "optim/factored_support.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Foof;
using adaact::FoofOptions;
using adaact::Kfac;
using adaact::KfacOptions;

class FactoredRobustness : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }
};

TEST_F(FactoredRobustness, AnInPlaceActivationChangesNothing) {
  const auto train = [](bool in_place) {
    torch::manual_seed(7);
    torch::nn::Sequential model(torch::nn::Linear(6, 8),
                                torch::nn::ReLU(torch::nn::ReLUOptions(in_place)),
                                torch::nn::Linear(8, 3));
    model->to(torch::kFloat64);
    Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
    for (int i = 0; i < 3; ++i) train_step(model, optimizer, row_batch(10));
    return snapshot(*model);
  };
  expect_close(train(true), train(false), 1e-12);
}

TEST_F(FactoredRobustness, FactorsAreMeasuredAndInvertedByTheirPeriods) {
  auto model = make_mlp();
  Kfac optimizer(*model, KfacOptions(0.01).covariance_period(3).inverse_period(5));
  const auto weight = model->parameters()[0];
  const auto factors = [&]() -> const adaact::KroneckerFactors& {
    for (const auto& [key, state] : optimizer.state()) {
      const auto& typed = static_cast<const adaact::KfacParamState&>(*state);
      if (!typed.factors().empty() && typed.factors()[0].a.size(-1) == 7) return typed.factors()[0];
    }
    throw std::logic_error("no factors");
  };
  torch::Tensor a;
  torch::Tensor vectors;
  for (int t = 0; t < 11; ++t) {
    train_step(model, optimizer, row_batch(10));
    EXPECT_EQ(factors().updates, t / 3 + 1) << t;
    if (t > 0) {
      EXPECT_EQ(torch::equal(factors().a, a), t % 3 != 0) << t;
      EXPECT_EQ(torch::equal(factors().a_vectors, vectors), t % 5 != 0) << t;
    }
    a = factors().a.clone();
    vectors = factors().a_vectors.clone();
  }
}

TEST_F(FactoredRobustness, ALayerFirstUsedLateGetsFactorsAtOnce) {
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      first = register_module("first", torch::nn::Linear(6, 3));
      late = register_module("late", torch::nn::Linear(3, 3));
    }
    torch::Tensor forward(const torch::Tensor& x) {
      const auto y = first->forward(x);
      return use_late ? late->forward(torch::tanh(y)) : y;
    }
    torch::nn::Linear first{nullptr}, late{nullptr};
    bool use_late = false;
  };
  const auto model = std::make_shared<NetImpl>();
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.01).covariance_period(10).inverse_period(10));
  const auto train = [&] {
    optimizer.zero_grad();
    const auto batch = row_batch(8, torch::kFloat32);
    cross_entropy(model->forward(batch.x), batch.y).backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) train();
  EXPECT_TRUE(contains(warnings.messages.at(0), "late.weight"));
  model->use_late = true;
  train();
  for (const auto& parameter : optimizer.coverage()) EXPECT_TRUE(parameter.observed);
}

TEST_F(FactoredRobustness, FactorsTooLargeFallBackToMomentumSgd) {
  auto model = make_mlp();  // factors of 7 and 8, 9 and 3 rows
  auto by_sgd = make_mlp();
  copy_values(model, by_sgd);
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.1).max_factor_size(2));
  torch::optim::SGD sgd(by_sgd->parameters(),
                        torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
  for (int i = 0; i < 4; ++i) {
    const auto batch = row_batch(10);
    train_step(model, optimizer, batch);
    train_step(by_sgd, sgd, batch);
  }
  expect_close(snapshot(*model), snapshot(*by_sgd), 1e-12);
  ASSERT_EQ(warnings.messages.size(), 2U);  // once for each layer
  EXPECT_TRUE(contains(warnings.messages[0], "'0.weight' would have 8 rows"));
  EXPECT_TRUE(contains(warnings.messages[1], "'2.weight' would have 9 rows"));
  EXPECT_TRUE(contains(warnings.messages[1], "max_factor_size 2"));
  const auto coverage = optimizer.coverage();
  EXPECT_FALSE(coverage[0].observed);
  EXPECT_TRUE(contains(coverage[0].reason, "max_factor_size 2"));
}

TEST_F(FactoredRobustness, OnlyTheLayerThatIsTooLargeFallsBack) {
  auto model = make_mlp();
  const WarningCapture warnings;
  Foof optimizer(*model, FoofOptions(0.1).max_factor_size(8));  // A of 7 and of 9 rows
  train_step(model, optimizer, row_batch(10));
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_TRUE(contains(warnings.messages[0], "'2.weight'"));
  EXPECT_TRUE(optimizer.coverage()[0].observed);
  EXPECT_FALSE(optimizer.coverage()[2].observed);
}

TEST_F(FactoredRobustness, SelfAndCrossAttentionShareAPackedProjection) {
  torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(4, 2));
  attention->to(torch::kFloat64);
  Kfac optimizer(*attention, KfacOptions(0.01).covariance_period(1).inverse_period(1));
  const auto train = [&](bool cross) {
    const auto x = torch::randn({3, 5, 4}, torch::kFloat64);
    const auto other = cross ? torch::randn({3, 5, 4}, torch::kFloat64) : x;
    optimizer.zero_grad();
    std::get<0>(attention->forward(x, other, other)).square().mean().backward();
    optimizer.step();
  };
  for (const bool cross : {false, false, true, true, false}) train(cross);
  const auto runs = optimizer.export_state().entries.at("in_proj_weight").at("runs");
  EXPECT_GT(runs.size(0), 1);  // the whole projection was cut where cross-attention divides it
  for (const auto& parameter : attention->parameters()) {
    EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
  }
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_TRUE(parameter.observed) << parameter.name << ": " << parameter.reason;
  }
  std::stringstream file;
  optimizer.named_state().save(file);
  optimizer.named_state().load(file);
}

TEST_F(FactoredRobustness, ADeadInputDoesNotBlowUp) {
  auto layer = double_linear(4, 3);
  layer->to(torch::kFloat32);
  auto x = torch::randn({16, 4});
  x.select(1, 2).zero_();
  x.select(1, 3).copy_(x.select(1, 0));  // and a duplicate
  Kfac kfac(*layer, plain_kfac().lr(0.1).damping(1e-6));
  half_squared_error(layer->forward(x), torch::randn({16, 3})).backward();
  kfac.step();
  EXPECT_TRUE(torch::isfinite(layer->weight).all().item<bool>());
  EXPECT_LT(layer->weight.abs().max().item<double>(), 100.0);
}

TEST_F(FactoredRobustness, ADiscardedForwardPassAndItsLateBackwardLeaveNoTrace) {
  auto model = make_mlp();
  auto other = make_mlp();
  copy_values(model, other);
  Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
  Kfac reference(*other, plain_kfac().lr(0.1).damping(0.1));
  const auto batch = row_batch(10);
  const auto late_loss = cross_entropy(model->forward(batch.x * 3.0), batch.y);
  optimizer.discard_observations();
  late_loss.backward();
  train_step(model, optimizer, batch);
  train_step(other, reference, batch);
  expect_bit_identical(snapshot(*model), snapshot(*other));
}

TEST_F(FactoredRobustness, ALayerWithoutBackwardPassKeepsItsFactors) {
  struct NetImpl : torch::nn::Module {
    NetImpl() {
      used = register_module("used", torch::nn::Linear(6, 3));
      looked_at = register_module("looked_at", torch::nn::Linear(6, 3));
    }
    torch::nn::Linear used{nullptr}, looked_at{nullptr};
  };
  const auto model = std::make_shared<NetImpl>();
  const WarningCapture warnings;
  Kfac optimizer(*model, plain_kfac().lr(0.1));
  const auto batch = row_batch(8, torch::kFloat32);
  model->looked_at->forward(batch.x);  // gradients are recorded, but nobody asks for them
  cross_entropy(model->used->forward(batch.x), batch.y).backward();
  optimizer.step();
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_EQ(parameter.observed, parameter.name.rfind("used", 0) == 0) << parameter.name;
  }
}

TEST_F(FactoredRobustness, ABackwardPassInAPauseIsNotObserved) {
  auto model = make_mlp();
  auto other = make_mlp();
  copy_values(model, other);
  Kfac optimizer(*model, plain_kfac().lr(0.1).damping(0.1));
  Kfac reference(*other, plain_kfac().lr(0.1).damping(0.1));
  const auto batch = row_batch(10);
  optimizer.zero_grad();
  const auto loss = cross_entropy(model->forward(batch.x), batch.y);
  {
    const auto pause = optimizer.pause_observation();
    torch::autograd::grad({loss}, {model->parameters()[0]}, {}, /*retain_graph=*/true);
  }
  loss.backward();
  optimizer.step();
  train_step(other, reference, batch);
  expect_bit_identical(snapshot(*model), snapshot(*other));
}

/// Rows [0, 2) and [2, 4) of one weight as layers of their own, each with its part of the bias.
struct SlicedNetImpl : torch::nn::Module {
  SlicedNetImpl() {
    weight = register_parameter("weight", torch::randn({4, 3}, torch::kFloat64));
    bias = register_parameter("bias", torch::zeros({4}, torch::kFloat64));
  }
  torch::Tensor forward(const torch::Tensor& x, bool upper) {
    const auto begin = upper ? 2 : 0;
    return torch::linear(x, weight.narrow(0, begin, 2)) + bias.narrow(0, begin, 2);
  }
  torch::Tensor weight, bias;
};
TORCH_MODULE(SlicedNet);

void train_slices(SlicedNet& model, torch::optim::Optimizer& optimizer,
                  const std::vector<bool>& uppers) {
  optimizer.zero_grad();
  for (const bool upper : uppers) {
    model->forward(torch::randn({6, 3}, torch::kFloat64), upper).square().sum(1).mean().backward();
  }
  optimizer.step();
}

TEST_F(FactoredRobustness, SlicesUsedInAnyOrderAreSavedInOrder) {
  SlicedNet model;
  Kfac optimizer(*model, plain_kfac().lr(0.01).damping(0.1));
  train_slices(model, optimizer, {true});
  train_slices(model, optimizer, {false});
  const auto runs = optimizer.export_state().entries.at("weight").at("runs");
  EXPECT_TRUE(torch::equal(runs, torch::tensor({{0, 2, 1}, {2, 4, 1}}, torch::kInt64))) << runs;
  std::stringstream file;
  optimizer.named_state().save(file);
  optimizer.named_state().load(file);
}

TEST_F(FactoredRobustness, ABiasMayBeFrozenWhileSlicesAreUsedInTurn) {
  SlicedNet model;
  Kfac optimizer(*model, plain_kfac().lr(0.01).damping(0.1));
  train_slices(model, optimizer, {false, true});
  model->bias.set_requires_grad(false);
  train_slices(model, optimizer, {false});  // now without a column for the bias
  train_slices(model, optimizer, {true, false});
  model->bias.set_requires_grad(true);
  train_slices(model, optimizer, {true});
  EXPECT_EQ(optimizer.steps(), 4);
  EXPECT_TRUE(torch::isfinite(model->weight).all().item<bool>());
}

TEST_F(FactoredRobustness, AWeightWithoutRowsDoesNotMatter) {
  const adaact::NamedTensors tensors{
      {"empty", torch::zeros({0, 3}, torch::kFloat64).requires_grad_()},
      {"full", torch::randn({2, 3}, torch::kFloat64).requires_grad_()}};
  const WarningCapture warnings;
  Kfac optimizer(tensors);
  const auto x = torch::randn({5, 3}, torch::kFloat64);
  const auto loss =
      torch::linear(x, tensors[0].second).sum() + torch::linear(x, tensors[1].second).sum();
  loss.backward();
  optimizer.step();
  EXPECT_TRUE(optimizer.coverage()[1].observed);
}

/// A backward pass that leaves the gradient undefined, which stands for zero.
struct NoGradient : torch::autograd::Function<NoGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/, torch::Tensor x) {
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* /*context*/,
                                               torch::autograd::tensor_list /*gradients*/) {
    return {torch::Tensor()};
  }
};

TEST_F(FactoredRobustness, AnUndefinedGradientIsNoFailure) {
  auto model = make_mlp();
  Kfac optimizer(*model);
  optimizer.zero_grad();
  NoGradient::apply(model->forward(row_batch(4).x)).sum().backward();
  const WarningCapture warnings;
  optimizer.step();
}

TEST_F(FactoredRobustness, ASingularFactorNamesItsLayer) {
  torch::nn::Sequential model(torch::nn::Linear(50, 2));
  Foof optimizer(*model, plain_foof().damping(1e-12));
  auto x = torch::randn({3, 50}) * 1e4;
  model->forward(x).square().mean().backward();
  const auto before = snapshot(*model);
  const auto error = error_of([&] { optimizer.step(); });
  EXPECT_TRUE(
      contains(error, "Foof: the factor of '0.weight' is not positive definite with damping"));
  EXPECT_TRUE(contains(error, "inverse \"eigen\""));
  expect_bit_identical(snapshot(*model), before);
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST_F(FactoredRobustness, CoverageSaysWhyABiasIsNotScaled) {
  auto model = make_mlp();
  const WarningCapture warnings;
  Kfac optimizer(*model, KfacOptions(0.1).max_factor_size(8));  // 7 and 8 rows, 9 and 3 rows
  model->parameters()[0].set_requires_grad(false);
  train_step(model, optimizer, row_batch(10));
  const auto coverage = optimizer.coverage();
  EXPECT_TRUE(contains(coverage[1].reason, "whose weight is frozen"));
  EXPECT_TRUE(contains(coverage[3].reason, "larger than max_factor_size"));
}

TEST_F(FactoredRobustness, KfacNeedsTheOutputOfAnExplicitObservation) {
  auto layer = double_linear(4, 3);
  Kfac kfac(*layer);
  EXPECT_TRUE(contains(error_of([&] {
                         kfac.observe(layer->weight, torch::randn({2, 4}, torch::kFloat64));
                       }),
                       "Kfac: observe() was given no output"));
}

TEST_F(FactoredRobustness, HalfPrecisionWeightsDoNotOverflowBeforeTheLearningRate) {
  auto layer = torch::nn::Linear(4, 3);
  layer->to(torch::kHalf);
  Foof optimizer(*layer, plain_foof().lr(1e-4).momentum(0.0).max_factor_size(0));
  layer->weight.mutable_grad() = torch::full({3, 4}, 60000.0, torch::kHalf);
  layer->bias.mutable_grad() = torch::zeros({3}, torch::kHalf);
  const auto before = layer->weight.detach().to(torch::kFloat32);
  optimizer.param_groups()[0].options().set_lr(1e-4);
  static_cast<FoofOptions&>(optimizer.param_groups()[0].options()).weight_decay(1e6);
  optimizer.step();
  EXPECT_TRUE(torch::isfinite(layer->weight).all().item<bool>());
}

TEST_F(FactoredRobustness, AnExplicitObservationOfInputAndOutputEqualsTheOperators) {
  auto seen = double_linear(4, 3);
  auto reported = double_linear(4, 3);
  copy_values(seen, reported);
  Kfac by_operator(*seen, plain_kfac().damping(0.1));
  Kfac by_hand(*reported, plain_kfac().damping(0.1));
  const auto x = torch::randn({8, 4}, torch::kFloat64);
  const auto y = torch::randn({8, 3}, torch::kFloat64);
  half_squared_error(seen->forward(x), y).backward();
  by_operator.step();

  // einsum is no layer's operator.
  const auto product = torch::einsum("bi,oi->bo", {x, reported->weight});
  const auto output = product + reported->bias;
  by_hand.observe(reported->weight, x, adaact::Geometry::linear(), output);
  half_squared_error(output, y).backward();
  by_hand.step();
  expect_close(snapshot(*reported), snapshot(*seen), 1e-12);
}

TEST_F(FactoredRobustness, ANonsensicalStateIsRefused) {
  auto model = make_mlp();
  Kfac optimizer(*model);
  train_step(model, optimizer, row_batch(8));
  const auto error = [&](const char* entry, const torch::Tensor& value) {
    auto state = optimizer.export_state();
    state.entries.at("0.weight")[entry] = value;
    return error_of([&] { optimizer.import_state(state, "test"); });
  };
  EXPECT_TRUE(contains(error("a.0", torch::zeros({1, 3, 3})), "'a.0' of '0.weight'"));
  EXPECT_TRUE(contains(error("p.0", torch::zeros({1, 3, 3})), "'p.0' of '0.weight'"));
  EXPECT_TRUE(contains(error("runs", torch::tensor({{0, 99, 1}})), "'runs'"));
  EXPECT_TRUE(contains(error("momentum_buffer", torch::zeros({2})), "'momentum_buffer'"));
  EXPECT_TRUE(contains(error("surprise", torch::zeros({2})), "unknown entry 'surprise'"));
}

}  // namespace
