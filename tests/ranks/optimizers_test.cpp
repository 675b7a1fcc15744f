// Optimizers on several ranks against one process that sees all of their samples.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <adaact/adaact.h>
#include <adaact/ranks/gradient_exchange.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "optim/kronecker/factors_of_ranks.h"
#include "optim/kronecker/kronecker_factors.h"
#include "support/errors.h"
#include "support/optimizers_on_ranks.h"
#include "support/thread_ranks.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing::on_ranks_by_steps;

using adaact::Communicator;
using adaact::GradientExchange;
using adaact::NonFiniteError;
using adaact::RankError;
using adaact::share_statistics;
using adaact::ShareFactors;
using adaact::single_process;
using adaact::testing::all_close;
using adaact::testing::Batch;
using adaact::testing::bit_identical;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::expect_bit_identical;
using adaact::testing::expect_close;
using adaact::testing::on_ranks;
using adaact::testing::snapshot;
using adaact::testing::ThreadRank;

using Weights = std::vector<torch::Tensor>;

constexpr double kEqualToOneProcess = 1e-11;

using Training = std::function<void(RankOfTraining&)>;

Weights trained_alone(const OptimizerCase& which, const Training& train) {
  RankOfTraining alone(single_process(), which);
  train(alone);
  return snapshot(*alone.model);
}

/// The weights of rank 0; those of the others must be the same to the bit.
Weights trained_on(std::int64_t size, const OptimizerCase& which, const Training& train,
                   ShareFactors factors = ShareFactors::Yes) {
  std::vector<Weights> weights(static_cast<std::size_t>(size));
  on_ranks(size, [&](const std::shared_ptr<ThreadRank>& rank) {
    RankOfTraining one(rank, which, factors);
    train(one);
    weights[static_cast<std::size_t>(rank->rank())] = snapshot(*one.model);
  });
  for (const auto& others : weights) expect_bit_identical(others, weights[0]);
  return weights[0];
}

void expect_equal_on_ranks(const OptimizerCase& which, const std::vector<std::int64_t>& sizes,
                           const Training& train) {
  const auto alone = trained_alone(which, train);
  for (const auto size : sizes) {
    SCOPED_TRACE(std::to_string(size) + " ranks");
    expect_close(trained_on(size, which, train), alone, kEqualToOneProcess);
  }
}

std::string state_of(torch::optim::Optimizer& optimizer) {
  std::ostringstream out;
  adaact::named_state(optimizer).save(out);
  return out.str();
}

class OptimizerOnRanks : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(OptimizerOnRanks, EqualsOneProcess) {
  const auto batches = batches_for(GetParam().steps);
  expect_equal_on_ranks(GetParam(), {2, 3, 4}, [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch);
  });
}

TEST_P(OptimizerOnRanks, EqualsOneProcessWithMicroBatchesAndClipping) {
  const auto batches = batches_for(10);
  const Training in_one_batch = [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch, 1, 0.05);
  };
  const Training in_two = [&](RankOfTraining& rank) {
    // A batch of 3 divided by 2 and by 4 leaves ranks with one micro-batch or none. The layer for the first image is
    // that of the first micro-batch's.
    for (const auto& batch : batches) rank.step(batch, 2, 0.05);
  };
  expect_close(trained_alone(GetParam(), in_two), trained_alone(GetParam(), in_one_batch), 1e-10);
  expect_equal_on_ranks(GetParam(), {3, 4}, in_two);
}

TEST_P(OptimizerOnRanks, LayersMayBeFrozenFreedAndLeftOut) {
  const auto batches = batches_for(14);
  expect_equal_on_ranks(GetParam(), {3}, [&](RankOfTraining& rank) {
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const bool frozen = step >= 4 && step < 8;
      rank.model->conv->weight.set_requires_grad(!frozen);
      rank.model->hidden->bias.set_requires_grad(!frozen);
      rank.uses_first_only = step < 3 || step >= 10;
      rank.step(batches[step]);
    }
  });
}

TEST_P(OptimizerOnRanks, GoesOnWithAnotherNumberOfRanks) {
  const auto batches = batches_for(10);
  const auto alone = trained_alone(GetParam(), [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch);
  });
  std::mutex mutex;
  std::string state;
  const Training first_half = [&](RankOfTraining& rank) {
    for (std::size_t step = 0; step < 5; ++step) rank.step(batches[step]);
    const auto exported = state_of(rank.optimizer());
    const std::lock_guard<std::mutex> lock(mutex);
    if (state.empty()) state = exported;
    EXPECT_EQ(state, exported);  // of all ranks
  };
  const auto weights = trained_on(2, GetParam(), first_half);
  const auto resumed = trained_on(3, GetParam(), [&](RankOfTraining& rank) {
    {
      const torch::NoGradGuard no_grad;
      const auto parameters = rank.model->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(weights[i]);
      std::istringstream in(state);
      adaact::named_state(rank.optimizer()).load(in);
    }
    for (std::size_t step = 5; step < 10; ++step) rank.step(batches[step]);
  });
  expect_close(resumed, alone, kEqualToOneProcess);
}

TEST_P(OptimizerOnRanks, ANonFiniteImageOnOneRankRejectsTheStepOnAll) {
  auto batches = batches_for(6);
  batches[4].x[9].fill_(std::nan(""));  // the last rank's
  auto skipping = GetParam();
  skipping.options["non_finite_policy"] = "skip";
  expect_equal_on_ranks(skipping, {3}, [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch);
  });
  on_ranks(2, [&](const std::shared_ptr<ThreadRank>& rank) {
    RankOfTraining one(rank, GetParam());
    for (std::size_t step = 0; step < batches.size(); ++step) {
      if (step == 4) {
        const auto before = snapshot(*one.model);
        EXPECT_THROW(one.step(batches[step]), NonFiniteError);
        expect_bit_identical(snapshot(*one.model), before);
      } else {
        one.step(batches[step]);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOnRanks, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& tested) { return tested.param.name; });

/// Those that observe.
class ObservingOnRanks : public ::testing::TestWithParam<OptimizerCase> {
 public:
  static std::vector<OptimizerCase> cases() {
    auto cases = optimizer_cases();
    const std::set<std::string> without{"Adam", "AdamW", "Adan", "Lamb", "Sam", "Sgd"};
    cases.erase(std::remove_if(cases.begin(), cases.end(),
                               [&](const OptimizerCase& each) { return without.count(each.name); }),
                cases.end());
    return cases;
  }
};

TEST_P(ObservingOnRanks, AFailedObservationOnOneRankIsThrownOnAll) {
  const auto batches = batches_for(6);
  const auto alone = trained_alone(GetParam(), [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch);
  });
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    RankOfTraining one(rank, GetParam());
    for (std::size_t step = 0; step < batches.size(); ++step) {
      if (step == 2) {
        const auto before = snapshot(*one.model);
        if (rank->rank() == 1) {  // LibTorch multiplies what nothing here measures
          const auto sparse = torch::eye(7, torch::kFloat64).to_sparse();
          torch::mm(sparse, one.model->fc->weight.t());
        }
        const auto error = error_of([&] { one.step(batches[step]); });
        EXPECT_TRUE(contains(error, "dense floating point"));
        EXPECT_EQ(error.find("rank 1: ") == 0, rank->rank() != 1);
        expect_bit_identical(snapshot(*one.model), before);
      }
      one.step(batches[step]);
    }
    expect_close(snapshot(*one.model), alone, kEqualToOneProcess);
  });
}

TEST_P(ObservingOnRanks, FactorsMayStayLocal) {
  const auto batches = batches_for(8);
  const Training train = [&](RankOfTraining& rank) {
    for (const auto& batch : batches) rank.step(batch);
  };
  // On one machine all ranks compute the same. But −0 becomes 0 where zeros of others are added.
  expect_bit_identical(trained_on(3, GetParam(), train, ShareFactors::No),
                       trained_on(3, GetParam(), train, ShareFactors::Yes));
}

INSTANTIATE_TEST_SUITE_P(All, ObservingOnRanks, ::testing::ValuesIn(ObservingOnRanks::cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(StatisticsOnRanks, TakeOneMessageAStep) {
  const auto batches = batches_for(14);
  on_ranks(4, [&](const std::shared_ptr<ThreadRank>& rank) {
    RankOfTraining one(rank, {"AdaAct", "adaact", json::object()});
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const auto before = rank->sums();
      one.step(batches[step]);
      const auto messages = rank->sums() - before - one.exchange->last_cost().messages;
      EXPECT_EQ(messages, step == 0 ? 4 : 1) << "step " << step;  // the first agrees on a layout
    }
  });
}

TEST(StatisticsOnRanks, OfFactorsTravelWhenTheyAreDue) {
  const auto batches = batches_for(14);
  for (const auto factors : {ShareFactors::Yes, ShareFactors::No}) {
    on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
      RankOfTraining one(rank, {"Kfac", "kfac", {{"covariance_period", 2}, {"inverse_period", 3}}},
                         factors);
      for (std::size_t step = 0; step < batches.size(); ++step) {
        const auto before = rank->sums();
        one.step(batches[step]);
        if (step < 4) continue;  // until layouts are known
        const auto messages = rank->sums() - before - one.exchange->last_cost().messages;
        const bool inverses = factors == ShareFactors::Yes && step % 3 == 0;
        EXPECT_EQ(messages, inverses ? 2 : 1) << "step " << step;
      }
    });
  }
}

TEST(StatisticsOnRanks, OneRankAloneSendsNone) {
  const auto batches = batches_for(3);
  const auto alone = std::make_shared<ThreadRank>(nullptr, 0, 1);  // which nobody could meet
  for (const auto& which : ObservingOnRanks::cases()) {
    RankOfTraining one(alone, which);
    for (const auto& batch : batches) one.step(batch);
    RankOfTraining without(single_process(), which);
    for (const auto& batch : batches) without.step(batch);
    expect_bit_identical(snapshot(*one.model), snapshot(*without.model));
  }
  EXPECT_EQ(alone->sums(), 0);
}

TEST(StatisticsOnRanks, NeedACommunicator) {
  RanksNet model;
  adaact::AdaAct optimizer(*model);
  EXPECT_TRUE(contains(error_of([&] { optimizer.share_statistics(nullptr); }),
                       "share_statistics() was given no communicator"));
}

/// Whose gradient is zero in the steps with even numbers: a layer behind it multiplies by zero.
TEST(StatisticsOnRanks, AGradientThatIsZeroCountsAsOneProcessWouldCountIt) {
  auto batches = batches_for(6);
  for (auto& batch : batches) batch.x = batch.x.narrow(1, 0, 1).flatten(1).narrow(1, 0, 6);
  const auto train = [&](const OneRank& ranks) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    torch::nn::Sequential model(torch::nn::Linear(6, 4), torch::nn::Linear(4, 5));
    model->to(torch::kFloat64);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.uniform_(-0.5, 0.5, generator);
    }
    adaact::Kfac optimizer(*model, adaact::KfacOptions(0.1).covariance_period(1).inverse_period(1));
    optimizer.share_statistics(ranks);
    for (std::size_t step = 0; step < batches.size(); ++step) {
      optimizer.zero_grad();
      const auto& x = batches[step].x;
      const auto own = x.slice(0, x.size(0) * ranks->rank() / ranks->size(),
                               x.size(0) * (ranks->rank() + 1) / ranks->size());
      const auto hidden = model[0]->as<torch::nn::Linear>()->forward(own);
      const auto output =
          model[1]->as<torch::nn::Linear>()->forward(step % 2 == 0 ? hidden * 0.0 : hidden);
      (output.square().sum() / static_cast<double>(x.size(0))).backward();
      if (ranks->size() > 1) {
        for (const auto& parameter : model->parameters()) ranks->sum({parameter.grad()});
      }
      optimizer.step();
    }
    return snapshot(*model);
  };
  const auto alone = train(single_process());
  on_ranks(2, [&](const std::shared_ptr<ThreadRank>& rank) {
    expect_close(train(rank), alone, kEqualToOneProcess);
  });
}

/// No module says that `b` is a bias: the operator does, on the one rank that has samples.
TEST(StatisticsOnRanks, ABiasThatOneRankHasSeenIsOneOnAll) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const auto x = torch::randn({3, 4}, generator, torch::kFloat64);
  const auto start = torch::randn({2, 4}, generator, torch::kFloat64);
  const auto train = [&](const OneRank& ranks) {
    auto w = start.clone().requires_grad_();
    auto b = torch::ones({2}, torch::kFloat64).requires_grad_();
    adaact::AdaAct optimizer(adaact::NamedTensors{{"w", w}, {"b", b}}, adaact::AdaActOptions(0.1));
    optimizer.share_statistics(ranks);
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      for (const auto& parameter : {w, b}) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
      }
      if (ranks->rank() == ranks->size() - 1) torch::linear(x, w, b).square().mean().backward();
      for (const auto& parameter : {w, b}) ranks->sum({parameter.grad()});
      optimizer.step();
    }
    const auto coverage = optimizer.coverage();
    EXPECT_EQ(coverage[1].reason, "bias of an observed layer");
    return Weights{w.detach(), b.detach()};
  };
  const auto alone = train(single_process());
  on_ranks(3, [&](const std::shared_ptr<ThreadRank>& rank) {
    expect_close(train(rank), alone, kEqualToOneProcess);
  });
}

/// A gradient that torch::autograd::grad returned counts where no rank has added to the weight's own.
TEST(FactorsOnRanks, OfReturnedGradientsGiveWayToAddedOnes) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    adaact::SharedSums shared(rank);
    const auto sums_of = [](std::size_t weight, bool returned) {
      const auto ones = torch::ones({1, 2, 2}, torch::kFloat64);
      adaact::FactorSums sums;
      sums.weight = weight;
      sums.end = 2;
      sums.inputs = {ones, 6};
      sums.gradients = {ones * 3.0, 6};
      sums.samples = 3;
      sums.of_returned_gradients = returned;
      return sums;
    };
    for (int repetition = 0; repetition < 2; ++repetition) {
      // Weight 0: returned on both ranks. Weight 1: on one of them.
      const auto all = adaact::sums_of_ranks(
          shared,
          [&] {
            return std::vector{sums_of(0, true), sums_of(1, rank->is_first())};
          },
          {});
      ASSERT_EQ(all.size(), 2U);
      EXPECT_EQ(all[0].weight, 0U);
      EXPECT_TRUE(all[0].of_returned_gradients);
      EXPECT_EQ(all[0].end, 2);
      EXPECT_EQ(all[0].samples, 6);
      EXPECT_EQ(all[0].inputs.count, 12);
      EXPECT_EQ(all[0].gradients.count, 12);
      EXPECT_TRUE(
          bit_identical(all[0].gradients.sum, torch::full({1, 2, 2}, 6.0, torch::kFloat64)));
      EXPECT_EQ(all[1].weight, 1U);
      EXPECT_FALSE(all[1].of_returned_gradients);
      EXPECT_EQ(all[1].samples, 3);
      EXPECT_TRUE(bit_identical(all[1].inputs.sum, torch::ones({1, 2, 2}, torch::kFloat64)));
    }
  });
}

TEST(FactorsOnRanks, AreDividedAmongThem) {
  on_ranks(3, [](const std::shared_ptr<ThreadRank>& rank) {
    adaact::SharedSums shared(rank);
    const std::vector<std::int64_t> sizes{2, 9, 4, 8, 7};
    std::vector<adaact::KroneckerFactors> factors(sizes.size());
    for (int repetition = 0; repetition < 2; ++repetition) {
      std::vector<adaact::DueFactors> due;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        factors[i].a = torch::eye(sizes[i], torch::kFloat64).unsqueeze(0) * (repetition + 1.0);
        due.push_back({10 + i, &factors[i]});
      }
      std::vector<std::int64_t> own;
      adaact::invert_on_ranks(shared, due, [&](const adaact::DueFactors& each) {
        own.push_back(each.factors->a.size(-1));
        each.factors->a_inverse = at::linalg_inv(each.factors->a);
      });
      // 9³ | 8³ | 7³ + 4³ + 2³
      const std::vector<std::vector<std::int64_t>> shares{{9}, {8}, {2, 4, 7}};
      EXPECT_EQ(own, shares[static_cast<std::size_t>(rank->rank())]);
      for (const auto& each : factors) {
        EXPECT_TRUE(bit_identical(each.a_inverse, at::linalg_inv(each.a)));
        EXPECT_FALSE(each.p_inverse.defined());
      }
    }
  });
}

/// A layer whose factor cannot be inverted, and a larger one: they go to different ranks.
TEST(FactorsOnRanks, AnIndefiniteOneIsThrownOnAll) {
  on_ranks(2, [](const std::shared_ptr<ThreadRank>& rank) {
    struct TwoLayersImpl : torch::nn::Module {
      TwoLayersImpl()
          : singular(register_module("singular", torch::nn::Linear(20, 2))),
            larger(register_module("larger", torch::nn::Linear(30, 2))) {}
      torch::nn::Linear singular, larger;
    };
    TwoLayersImpl model;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model.parameters()) parameter.uniform_(-0.5, 0.5, generator);
    }
    adaact::Foof optimizer(model, adaact::FoofOptions(0.1).damping(1e-12));
    optimizer.share_statistics(rank);
    const auto few = torch::randn({3, 20}, generator) * 1e4;
    const auto many = torch::randn({200, 30}, generator);
    const auto before = snapshot(model);
    const auto step = [&](const torch::Tensor& x) {
      optimizer.zero_grad();
      const auto loss =
          model.singular->forward(x).square().mean() + model.larger->forward(many).square().mean();
      loss.backward();
      for (const auto& parameter : model.parameters()) rank->sum({parameter.grad()});
      optimizer.step();
    };
    for (int repetition = 0; repetition < 2; ++repetition) {
      const auto error = error_of([&] { step(few); });
      EXPECT_TRUE(
          contains(error, "Foof: the factor of 'singular.weight' is not positive definite"));
      EXPECT_EQ(error.find("rank 1: ") == 0, rank->rank() == 0);
      expect_bit_identical(snapshot(model), before);
      EXPECT_EQ(optimizer.steps(), 0);
    }
    step(torch::randn({200, 20}, generator));  // it can go on
    EXPECT_EQ(optimizer.steps(), 1);
  });
}

}  // namespace
