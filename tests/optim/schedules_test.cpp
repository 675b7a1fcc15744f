#include <cmath>
#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/small_models.h"

namespace {

using adaact::constant_schedule;
using adaact::cosine_schedule;
using adaact::multistep_schedule;
using adaact::per_epoch;
using adaact::ScheduledLR;
using adaact::step_schedule;
using adaact::with_warmup;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::make_mlp;

TEST(Schedules, Constant) {
  for (const int64_t t : {0, 1, 1000000}) EXPECT_EQ(constant_schedule()(t), 1.0);
}

TEST(Schedules, StepFallsEachPeriod) {
  const auto schedule = step_schedule(3, 0.5);
  const double expected[] = {1, 1, 1, 0.5, 0.5, 0.5, 0.25};
  for (int64_t t = 0; t < 7; ++t) EXPECT_DOUBLE_EQ(schedule(t), expected[t]) << t;
}

TEST(Schedules, MultistepFallsAtItsMilestones) {
  const auto schedule = multistep_schedule({2, 5}, 0.1);
  const double expected[] = {1, 1, 0.1, 0.1, 0.1, 0.01, 0.01};
  for (int64_t t = 0; t < 7; ++t) EXPECT_DOUBLE_EQ(schedule(t), expected[t]) << t;
}

TEST(Schedules, CosineIsThePapersFormula) {
  const auto schedule = cosine_schedule(200);
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    EXPECT_NEAR(schedule(epoch), 0.5 * (1.0 + std::cos(M_PI * static_cast<double>(epoch) / 200.0)),
                1e-15);
  }
  EXPECT_EQ(schedule(0), 1.0);
  EXPECT_EQ(schedule(200), 0.0);
  EXPECT_EQ(schedule(1000), 0.0);
}

TEST(Schedules, CosineEndsAtItsFinalFactor) {
  const auto schedule = cosine_schedule(10, 0.2);
  EXPECT_EQ(schedule(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule(5), 0.6);
  EXPECT_EQ(schedule(10), 0.2);
}

TEST(Schedules, PerEpochHoldsWithinAnEpoch) {
  const auto epochs = cosine_schedule(4);
  const auto steps = per_epoch(epochs, 391);
  EXPECT_EQ(steps(0), epochs(0));
  EXPECT_EQ(steps(390), epochs(0));
  EXPECT_EQ(steps(391), epochs(1));
  EXPECT_EQ(steps(4 * 391), epochs(4));
}

TEST(Schedules, WarmupRisesAndThenTheOtherBegins) {
  const auto schedule = with_warmup(5, 0.1, cosine_schedule(10));
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(1), 0.28);
  EXPECT_DOUBLE_EQ(schedule(4), 0.82);
  EXPECT_EQ(schedule(5), 1.0);
  EXPECT_DOUBLE_EQ(schedule(10), 0.5);
  EXPECT_EQ(with_warmup(0, 0.1, constant_schedule())(0), 1.0);
}

TEST(Schedules, LinearScalingRule) {
  EXPECT_DOUBLE_EQ(adaact::scaled_learning_rate(0.5, 2048), 4.0);
  EXPECT_DOUBLE_EQ(adaact::scaled_learning_rate(0.1, 64, 128), 0.05);
}

TEST(Schedules, BadArgumentsAreErrors) {
  EXPECT_TRUE(contains(error_of([] { step_schedule(0); }), "period is 0, expected ≥ 1"));
  EXPECT_TRUE(contains(error_of([] { multistep_schedule({5, 2}); }), "[5, 2], expected ascending"));
  EXPECT_TRUE(contains(error_of([] { cosine_schedule(0); }), "total is 0"));
  EXPECT_TRUE(
      contains(error_of([] { per_epoch(constant_schedule(), 0); }), "steps_per_epoch is 0"));
  EXPECT_TRUE(
      contains(error_of([] { with_warmup(-1, 0.0, constant_schedule()); }), "length is -1"));
  EXPECT_TRUE(contains(error_of([] { adaact::scaled_learning_rate(0.1, 0); }), "expected ≥ 1"));
  EXPECT_TRUE(contains(error_of([] { with_warmup(1, 0.0, nullptr); }), "no schedule"));
  EXPECT_TRUE(contains(error_of([] { per_epoch(nullptr, 1); }), "no schedule"));
}

double lr_of(torch::optim::Optimizer& optimizer, std::size_t group = 0) {
  return optimizer.param_groups()[group].options().get_lr();
}

TEST(ScheduledLR, SetsEveryGroupFromTheStart) {
  auto model = make_mlp();
  torch::optim::SGD optimizer(
      std::vector<torch::optim::OptimizerParamGroup>{
          torch::optim::OptimizerParamGroup({model->parameters()[0]},
                                            std::make_unique<torch::optim::SGDOptions>(1.0)),
          torch::optim::OptimizerParamGroup({model->parameters()[1]},
                                            std::make_unique<torch::optim::SGDOptions>(2.0))},
      torch::optim::SGDOptions(1.0));
  ScheduledLR scheduler(optimizer, with_warmup(2, 0.5, step_schedule(2, 0.1)));
  const double expected[] = {0.5, 0.75, 1.0, 1.0, 0.1, 0.1, 0.01};
  for (int t = 0; t < 7; ++t) {
    EXPECT_EQ(scheduler.time(), t);
    EXPECT_DOUBLE_EQ(lr_of(optimizer, 0), expected[t]) << t;
    EXPECT_DOUBLE_EQ(lr_of(optimizer, 1), 2.0 * expected[t]) << t;
    scheduler.step();
  }
}

TEST(ScheduledLR, ResumesAfterTheOptimizersStateIsLoaded) {
  auto model = make_mlp();
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.8));
  ScheduledLR scheduler(optimizer, cosine_schedule(10));
  for (int i = 0; i < 5; ++i) scheduler.step();
  std::stringstream file;
  optimizer.named_state().save(file);

  adaact::AdaAct resumed(*model, adaact::AdaActOptions(0.8));
  ScheduledLR its_scheduler(resumed, cosine_schedule(10));
  resumed.named_state().load(file);
  its_scheduler.set_time(5);
  for (int i = 5; i < 10; ++i) {
    EXPECT_EQ(lr_of(resumed), lr_of(optimizer)) << i;
    scheduler.step();
    its_scheduler.step();
  }
  EXPECT_EQ(lr_of(resumed), 0.0);
}

TEST(ScheduledLR, NeedsASchedule) {
  auto model = make_mlp();
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1.0));
  EXPECT_TRUE(contains(error_of([&] { ScheduledLR(optimizer, nullptr); }), "no schedule"));
}

}  // namespace
