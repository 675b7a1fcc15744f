#include <optional>
#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::AdaAct;
using adaact::AdaActOptions;
using adaact::Kfac;
using adaact::KfacOptions;
using adaact::Sam;
using adaact::SamOptions;
using adaact::testing::all_close;
using adaact::testing::Batch;
using adaact::testing::bit_identical;
using adaact::testing::contains;
using adaact::testing::copy_values;
using adaact::testing::CpuAutocast;
using adaact::testing::cross_entropy;
using adaact::testing::error_of;
using adaact::testing::expect_bit_identical;
using adaact::testing::expect_close;
using adaact::testing::image_batch;
using adaact::testing::make_mlp;
using adaact::testing::row_batch;
using adaact::testing::SmallNet;
using adaact::testing::snapshot;

class SamTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(3); }

  template <typename Model>
  static torch::Tensor step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch) {
    return optimizer.step([&] {
      optimizer.zero_grad();
      auto loss = cross_entropy(model->forward(batch.x), batch.y);
      loss.backward();
      return loss;
    });
  }
};

std::unique_ptr<torch::optim::SGD> plain_sgd(const torch::nn::Module& module, double lr = 0.1) {
  return std::make_unique<torch::optim::SGD>(module.parameters(), torch::optim::SGDOptions(lr));
}

TEST_F(SamTest, FollowsTheEquations) {
  for (const bool adaptive : {false, true}) {
    auto model = make_mlp();
    const double rho = 0.3, lr = 0.1;
    Sam optimizer(*model, plain_sgd(*model, lr), SamOptions(rho).adaptive(adaptive));
    const auto batch = row_batch(8);

    auto reference = make_mlp();
    copy_values(model, reference);
    const auto theta = snapshot(*reference);
    cross_entropy(reference->forward(batch.x), batch.y).backward();
    double squares = 0.0;
    std::vector<torch::Tensor> up;
    for (const auto& p : reference->parameters()) {
      const auto weight = adaptive ? p.detach().abs() : torch::ones_like(p);
      squares += (weight * p.grad()).square().sum().item<double>();
      up.push_back(weight.square() * p.grad());
    }
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < up.size(); ++i) {
        reference->parameters()[i].add_(up[i] * (rho / (std::sqrt(squares) + 1e-12)));
      }
    }
    reference->zero_grad();
    cross_entropy(reference->forward(batch.x), batch.y).backward();

    step(model, optimizer, batch);
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const auto expected = theta[i] - lr * reference->parameters()[i].grad();
      EXPECT_TRUE(all_close(model->parameters()[i].detach(), expected, 1e-12));
    }
  }
}

TEST_F(SamTest, ATiedWeightListedTwiceClimbsOnce) {
  torch::nn::Linear tied(torch::nn::LinearOptions(4, 4).bias(false));
  torch::nn::Sequential model(tied, torch::nn::Tanh(), tied);
  model->to(torch::kFloat64);
  ASSERT_EQ(model->parameters().size(), 2U);
  const double rho = 0.5;
  for (const bool adaptive : {false, true}) {
    Sam optimizer(*model, plain_sgd(*model, 0.0), SamOptions(rho).adaptive(adaptive));
    const auto x = torch::randn({8, 4}, torch::kFloat64);
    const auto theta = tied->weight.detach().clone();
    torch::Tensor gradient;  // at θ
    std::vector<torch::Tensor> places;
    optimizer.step([&] {
      optimizer.zero_grad();
      places.push_back(tied->weight.detach().clone());
      auto loss = model->forward(x).square().sum();
      loss.backward();
      if (!gradient.defined()) gradient = tied->weight.grad().clone();
      return loss;
    });
    ASSERT_EQ(places.size(), 2U);
    const auto weight = adaptive ? theta.abs() : torch::ones_like(theta);
    const auto e = rho * weight.square() * gradient / (weight * gradient).norm();
    EXPECT_TRUE(all_close(places[1] - places[0], e, 1e-10)) << adaptive;
    EXPECT_TRUE(bit_identical(tied->weight.detach(), theta));
  }
}

TEST_F(SamTest, ReturnsTheLossOfTheFirstPass) {
  auto model = make_mlp();
  Sam optimizer(*model, plain_sgd(*model), SamOptions(0.5));
  const auto batch = row_batch(8);
  const auto expected = cross_entropy(model->forward(batch.x), batch.y).item<double>();
  EXPECT_EQ(step(model, optimizer, batch).item<double>(), expected);
}

TEST_F(SamTest, TheSecondPassLeavesRunningStatisticsAlone) {
  SmallNet model;
  SmallNet seen_once;
  copy_values(model, seen_once);
  Sam optimizer(*model, plain_sgd(*model), SamOptions(1.0));
  const auto batch = image_batch(8, torch::kFloat32);
  step(model, optimizer, batch);
  seen_once->forward(batch.x);
  EXPECT_TRUE(bit_identical(model->norm->running_mean, seen_once->norm->running_mean));
  EXPECT_TRUE(bit_identical(model->norm->running_var, seen_once->norm->running_var));
  EXPECT_EQ(model->norm->num_batches_tracked.item<int64_t>(), 1);
}

TEST_F(SamTest, TheSecondPassLeavesActivationStatisticsAlone) {
  SmallNet model;
  model->to(torch::kFloat64);
  SmallNet alone;
  alone->to(torch::kFloat64);
  copy_values(model, alone);
  auto base = std::make_unique<AdaAct>(*model, AdaActOptions(0.1));
  auto& adaact = *base;
  Sam optimizer(*model, std::move(base), SamOptions(1.0));
  AdaAct reference(*alone, AdaActOptions(0.1));
  const auto batch = image_batch(8);
  step(model, optimizer, batch);
  step(alone, reference, batch);
  EXPECT_TRUE(bit_identical(adaact.second_moment(model->conv->weight),
                            reference.second_moment(alone->conv->weight)));
  EXPECT_TRUE(bit_identical(adaact.second_moment(model->fc->weight),
                            reference.second_moment(alone->fc->weight)));
}

TEST_F(SamTest, TheSecondPassLeavesOutputGradientsAlone) {
  auto model = make_mlp();
  auto alone = make_mlp();
  copy_values(model, alone);
  auto base = std::make_unique<Kfac>(*model, KfacOptions(0.1));
  auto& kfac = *base;
  Sam optimizer(*model, std::move(base), SamOptions(1.0));
  Kfac reference(*alone, KfacOptions(0.1));
  const auto batch = row_batch(8);
  step(model, optimizer, batch);
  step(alone, reference, batch);
  const auto of_sam = kfac.export_state();
  const auto expected = reference.export_state();
  for (const char* entry : {"a.0", "p.0", "a_vectors.0"}) {
    EXPECT_TRUE(bit_identical(of_sam.entries.at("0.weight").at(entry),
                              expected.entries.at("0.weight").at(entry)))
        << entry;
  }
}

TEST_F(SamTest, ARadiusOfZeroIsTheBase) {
  for (const char* base : {"adaact", "adam", "adan", "foof", "kfac", "lamb", "sgd"}) {
    SmallNet with_sam;
    SmallNet alone;
    copy_values(with_sam, alone);
    const auto sam = adaact::make_optimizer("sam", *with_sam,
                                            std::string(R"({"rho": 0, "base": ")") + base + "\"}");
    const auto reference = adaact::make_optimizer(base, *alone);
    for (int i = 0; i < 3; ++i) {
      const auto batch = image_batch(8, torch::kFloat32);
      step(with_sam, *sam, batch);
      step(alone, *reference, batch);
    }
    expect_bit_identical(snapshot(*with_sam), snapshot(*alone));
  }
}

TEST_F(SamTest, WrapsAnyOptimizerOfLibTorch) {
  auto model = make_mlp();
  Sam optimizer(*model, std::make_unique<torch::optim::RMSprop>(model->parameters()));
  const auto before = snapshot(*model);
  step(model, optimizer, row_batch(8));
  EXPECT_FALSE(torch::equal(model->parameters()[0], before[0]));
  EXPECT_TRUE(contains(error_of([&] { optimizer.export_state(); }), "has no names"));
}

TEST_F(SamTest, ABareOptimizerOfLibTorchResumes) {
  auto model = make_mlp();
  const auto make = [](torch::nn::Sequential& on) {
    return Sam(*on, std::make_unique<torch::optim::Adam>(on->parameters()));
  };
  auto optimizer = make(model);
  for (int i = 0; i < 3; ++i) step(model, optimizer, row_batch(8));
  static_cast<SamOptions&>(optimizer.param_groups()[0].options()).rho(0.125);
  auto resumed = make_mlp();
  copy_values(model, resumed);
  auto other = make(resumed);
  std::stringstream file;
  optimizer.named_state().save(file);
  other.named_state().load(file);
  EXPECT_EQ(static_cast<SamOptions&>(other.param_groups()[0].options()).rho(), 0.125);
  const auto batch = row_batch(8);
  step(model, optimizer, batch);
  step(resumed, other, batch);
  expect_bit_identical(snapshot(*resumed), snapshot(*model));
}

TEST_F(SamTest, TheLearningRateIsTheBases) {
  auto model = make_mlp();
  Sam optimizer(*model, plain_sgd(*model, 0.5));
  auto& options = optimizer.param_groups()[0].options();
  EXPECT_EQ(options.get_lr(), 0.5);
  options.set_lr(0.25);
  EXPECT_EQ(optimizer.base().param_groups()[0].options().get_lr(), 0.25);
  EXPECT_TRUE(contains(error_of([] { SamOptions().get_lr(); }), "belong to no optimizer"));
}

TEST_F(SamTest, WhateverTheClosureThrowsParametersAndBuffersStay) {
  SmallNet model;
  Sam optimizer(*model, plain_sgd(*model), SamOptions(1.0));
  const auto batch = image_batch(8, torch::kFloat32);
  const auto before = snapshot(*model);
  int passes = 0;
  torch::Tensor mean_after_first;
  EXPECT_TRUE(contains(error_of([&] {
                         optimizer.step([&] {
                           optimizer.zero_grad();
                           auto loss = cross_entropy(model->forward(batch.x), batch.y);
                           loss.backward();
                           if (++passes == 2) throw std::runtime_error("out of luck");
                           mean_after_first = model->norm->running_mean.clone();
                           return loss;
                         });
                       }),
                       "out of luck"));
  expect_bit_identical(snapshot(*model), before);
  EXPECT_TRUE(bit_identical(model->norm->running_mean, mean_after_first));
}

TEST_F(SamTest, ANonFiniteSecondGradientRejectsTheStep) {
  auto model = make_mlp();
  auto base = std::make_unique<AdaAct>(*model);
  auto& adaact = *base;
  Sam optimizer(*model, std::move(base),
                SamOptions(1.0).non_finite_policy(adaact::NonFinitePolicy::Skip));
  const auto before = snapshot(*model);
  const auto batch = row_batch(8);
  int passes = 0;
  optimizer.step([&] {
    optimizer.zero_grad();
    auto loss = cross_entropy(model->forward(batch.x), batch.y);
    if (++passes == 2) loss = loss * std::nan("");
    loss.backward();
    return loss;
  });
  expect_bit_identical(snapshot(*model), before);
  EXPECT_EQ(optimizer.skipped_steps(), 1);
  EXPECT_FALSE(adaact.second_moment(model->parameters()[0]).defined());
}

TEST_F(SamTest, NeedsAClosureAndABaseOverItsModel) {
  auto model = make_mlp();
  auto stranger = make_mlp();
  Sam optimizer(*model, plain_sgd(*model));
  EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }), "needs a closure"));
  EXPECT_TRUE(
      contains(error_of([&] { Sam(*model, plain_sgd(*stranger)); }), "no parameter of the model"));
  EXPECT_TRUE(contains(error_of([&] { Sam(*model, nullptr); }), "no base optimizer"));
  EXPECT_TRUE(
      contains(error_of([&] { Sam(*model, plain_sgd(*model), SamOptions(-1.0)); }), "rho is -1"));
}

TEST_F(SamTest, AGroupAddedToTheBaseIsClimbedToo) {
  auto model = make_mlp();
  const auto parameters = model->parameters();
  auto base = std::make_unique<torch::optim::SGD>(
      std::vector<torch::Tensor>{parameters[0], parameters[1]}, torch::optim::SGDOptions(0.1));
  Sam optimizer(*model, std::move(base));
  optimizer.base().add_param_group(
      torch::optim::OptimizerParamGroup({parameters[2], parameters[3]}));
  const auto before = snapshot(*model);
  step(model, optimizer, row_batch(8));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_FALSE(torch::equal(parameters[i], before[i])) << i;
  }
  EXPECT_EQ(optimizer.param_groups().size(), 2U);
}

TEST_F(SamTest, AGroupAddedToSamGoesToTheBase) {
  auto model = make_mlp();
  const auto parameters = model->parameters();
  auto base = std::make_unique<torch::optim::SGD>(
      std::vector<torch::Tensor>{parameters[0], parameters[1]}, torch::optim::SGDOptions(0.1));
  Sam optimizer(*model, std::move(base));
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({parameters[2], parameters[3]}));
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.1);
  const auto before = snapshot(*model);
  step(model, optimizer, row_batch(8));
  EXPECT_FALSE(torch::equal(parameters[2], before[2]));
}

TEST_F(SamTest, AGroupAddedBehindItsBackIsAnError) {
  auto model = make_mlp();
  Sam optimizer(*model, plain_sgd(*model));
  static_cast<torch::optim::Optimizer&>(optimizer).add_param_group(
      torch::optim::OptimizerParamGroup({torch::zeros({2}).requires_grad_()}));
  EXPECT_TRUE(contains(error_of([&] { step(model, optimizer, row_batch(8)); }),
                       "2 parameter groups, but the base optimizer has 1"));
}

TEST_F(SamTest, AStateIsWholeRightAfterAGroupWasAddedToTheBase) {
  auto model = make_mlp();
  const auto parameters = model->parameters();
  Sam optimizer(*model, std::make_unique<torch::optim::SGD>(
                            std::vector<torch::Tensor>{parameters[0], parameters[1]},
                            torch::optim::SGDOptions(0.1)));
  optimizer.base().add_param_group(
      torch::optim::OptimizerParamGroup({parameters[2], parameters[3]}));
  EXPECT_EQ(optimizer.export_state().groups.size(), 2U);
  std::stringstream file;
  optimizer.named_state().save(file);
  optimizer.named_state().load(file);
  EXPECT_EQ(optimizer.param_groups().size(), 2U);
}

TEST_F(SamTest, ASecondPassThatThrowsLeavesNoObservations) {
  auto model = make_mlp();
  auto base = std::make_unique<AdaAct>(*model);
  auto& adaact = *base;
  Sam optimizer(*model, std::move(base));
  const auto batch = row_batch(8);
  int passes = 0;
  error_of([&] {
    optimizer.step([&] {
      optimizer.zero_grad();
      auto loss = cross_entropy(model->forward(batch.x * 100.0), batch.y);
      loss.backward();
      if (++passes == 2) throw std::runtime_error("out of luck");
      return loss;
    });
  });
  step(model, optimizer, batch);
  EXPECT_TRUE(all_close(adaact.second_moment(model->parameters()[0]),
                        batch.x.square().mean(0, true), 1e-12));
}

TEST_F(SamTest, TheSecondPassUnderAutocastSeesTheClimbedParameters) {
  const auto second_loss = [](bool scope_around_step) {
    torch::manual_seed(4);
    auto model = make_mlp(torch::kFloat32);
    Sam optimizer(*model, plain_sgd(*model), SamOptions(2.0));
    const auto batch = row_batch(8, torch::kFloat32);
    double loss = 0.0;
    const auto closure = [&] {
      optimizer.zero_grad();
      std::optional<CpuAutocast> autocast;
      if (!scope_around_step) autocast.emplace();
      auto value = cross_entropy(model->forward(batch.x).to(torch::kFloat32), batch.y);
      value.backward();
      loss = value.item<double>();
      return value;
    };
    std::optional<CpuAutocast> autocast;
    if (scope_around_step) autocast.emplace();  // its cache of weights lives for both passes
    optimizer.step(closure);
    return loss;
  };
  EXPECT_EQ(second_loss(true), second_loss(false));
}

TEST_F(SamTest, WhatTheBaseFindsNotFiniteFollowsSamsPolicy) {
  auto model = make_mlp();
  Sam optimizer(*model, std::make_unique<AdaAct>(*model),
                SamOptions(0.05).non_finite_policy(adaact::NonFinitePolicy::Skip));
  const auto before = snapshot(*model);
  const auto batch = row_batch(8);
  optimizer.step([&] {
    optimizer.zero_grad();
    model->forward(batch.x * 1e200);  // whose square overflows
    auto loss = cross_entropy(model->forward(batch.x), batch.y);
    loss.backward();
    return loss;
  });
  expect_bit_identical(snapshot(*model), before);
  EXPECT_EQ(optimizer.skipped_steps(), 1);
}

TEST_F(SamTest, ABaseThatNeedsAClosureIsAnError) {
  auto model = make_mlp();
  EXPECT_TRUE(
      contains(error_of([&] { Sam(*model, std::make_unique<Sam>(*model, plain_sgd(*model))); }),
               "needs a closure itself"));
  EXPECT_TRUE(contains(error_of([&] {
                         Sam(*model, std::make_unique<torch::optim::LBFGS>(
                                         model->parameters(), torch::optim::LBFGSOptions(1.0)));
                       }),
                       "needs a closure itself"));
}

}  // namespace
