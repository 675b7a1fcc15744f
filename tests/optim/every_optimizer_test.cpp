// What every optimizer of the registry promises, whatever its algorithm.

#include <set>
#include <sstream>

#include <adaact/adaact.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

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
using adaact::testing::SmallNet;
using adaact::testing::snapshot;
using nlohmann::json;

using OptimizerPointer = std::unique_ptr<torch::optim::Optimizer>;

/// SmallNet without normalisation, whose statistics depend on how a batch is divided, and with a
/// layer that is never used.
struct PlainNetImpl : torch::nn::Module {
  PlainNetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    grouped = register_module(
        "grouped",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).groups(2).stride(2).bias(false)));
    unused = register_module("unused", torch::nn::Linear(3, 3));
    fc = register_module("fc", torch::nn::Linear(6 * 3 * 3, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = torch::tanh(grouped->forward(torch::tanh(conv->forward(x))));
    return fc->forward(y.flatten(1));
  }
  torch::nn::Conv2d conv{nullptr}, grouped{nullptr};
  torch::nn::Linear unused{nullptr}, fc{nullptr};
};
TORCH_MODULE(PlainNet);

class EveryOptimizer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { torch::manual_seed(1); }

  /// Learning rates for models that train for a hundred steps.
  static json options() {
    static const std::set<std::string> small_steps{"adam", "adamw", "adan", "lamb"};
    return small_steps.count(GetParam()) != 0 ? json{{"lr", 0.01}} : json::object();
  }

  template <typename Model>
  static OptimizerPointer make(Model& model, json more = json::object(),
                               adaact::DecayRule decay = adaact::DecayRule::Everything) {
    auto all = options();
    all.update(more);
    return adaact::make_optimizer(GetParam(), *model, all.dump(), decay);
  }

  /// Where things do not happen in every step: often enough to be seen.
  static json short_periods() {
    return GetParam() == "foof" || GetParam() == "kfac"
               ? json{{"covariance_period", 2}, {"inverse_period", 3}}
               : json::object();
  }

  /// One step through a closure, which SAM needs and all others take.
  template <typename Model>
  static double step(Model& model, torch::optim::Optimizer& optimizer,
                     const std::vector<Batch>& micro_batches) {
    const auto loss = optimizer.step([&] {
      optimizer.zero_grad();
      auto total = torch::zeros({}, micro_batches[0].x.options());
      for (const auto& batch : micro_batches) {
        auto part = cross_entropy(model->forward(batch.x), batch.y) /
                    static_cast<double>(micro_batches.size());
        part.backward();
        total += part.detach();
      }
      return total;
    });
    return loss.template item<double>();
  }

  static std::string state_bytes(torch::optim::Optimizer& optimizer) {
    std::ostringstream out;
    adaact::named_state(optimizer).save(out);
    return out.str();
  }
};

TEST_P(EveryOptimizer, Converges) {
  SmallNet model;
  const auto batch = image_batch(32, torch::kFloat32);
  const auto optimizer = make(model);
  const auto first = step(model, *optimizer, {batch});
  double last = first;
  for (int i = 0; i < 100; ++i) last = step(model, *optimizer, {batch});
  EXPECT_LT(last, 0.2 * first);
}

TEST_P(EveryOptimizer, ConvergesWithClippedGradients) {
  SmallNet model;
  const auto batch = image_batch(32, torch::kFloat32);
  const auto optimizer = make(model);
  double first = 0.0;
  double last = 0.0;
  for (int i = 0; i < 150; ++i) {
    const auto loss = optimizer->step([&] {
      optimizer->zero_grad();
      auto value = cross_entropy(model->forward(batch.x), batch.y);
      value.backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 0.2);
      return value;
    });
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST_P(EveryOptimizer, ConvergesUnderAutocast) {
  SmallNet model;
  const auto batch = image_batch(32, torch::kFloat32);
  const auto optimizer = make(model);
  double first = 0.0;
  double last = 0.0;
  for (int i = 0; i < 100; ++i) {
    const auto loss = optimizer->step([&] {
      optimizer->zero_grad();
      torch::Tensor logits;
      {
        const CpuAutocast autocast;
        logits = model->forward(batch.x);
      }
      auto value = cross_entropy(logits.to(torch::kFloat32), batch.y);
      value.backward();
      return value;
    });
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.3 * first);
  for (const auto& parameter : model->parameters()) {
    EXPECT_EQ(parameter.scalar_type(), torch::kFloat32);
  }
}

TEST_P(EveryOptimizer, FourMicroBatchesEqualOneBatch) {
  PlainNet whole;
  whole->to(torch::kFloat64);
  PlainNet parts;
  parts->to(torch::kFloat64);
  copy_values(whole, parts);
  const auto one = make(whole, short_periods());
  const auto four = make(parts, short_periods());
  for (int i = 0; i < 6; ++i) {
    const auto batch = image_batch(16);
    std::vector<Batch> micro_batches;
    for (int64_t part = 0; part < 4; ++part) {
      micro_batches.push_back({batch.x.narrow(0, part * 4, 4), batch.y.narrow(0, part * 4, 4)});
    }
    step(whole, *one, {batch});
    step(parts, *four, micro_batches);
  }
  expect_close(snapshot(*parts), snapshot(*whole), 1e-9);
}

TEST_P(EveryOptimizer, ResumesBitForBit) {
  SmallNet model;
  const auto optimizer = make(model, short_periods());
  for (int i = 0; i < 7; ++i) step(model, *optimizer, {image_batch(8, torch::kFloat32)});
  optimizer->param_groups()[0].options().set_lr(0.0123);

  SmallNet resumed;
  copy_values(model, resumed);
  const auto other = make(resumed);  // with another learning rate: the state brings its own
  std::stringstream file;
  adaact::named_state(*optimizer).save(file);
  adaact::named_state(*other).load(file);
  EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.0123);
  EXPECT_EQ(state_bytes(*other), state_bytes(*optimizer));
  for (int i = 0; i < 8; ++i) {
    const auto batch = image_batch(8, torch::kFloat32);
    step(model, *optimizer, {batch});
    step(resumed, *other, {batch});
  }
  expect_bit_identical(snapshot(*resumed), snapshot(*model));
}

TEST_P(EveryOptimizer, ResumesFromTorchSave) {
  SmallNet model;
  const auto optimizer = make(model);
  for (int i = 0; i < 3; ++i) step(model, *optimizer, {image_batch(8, torch::kFloat32)});
  std::stringstream archive;
  torch::save(*optimizer, archive);

  SmallNet resumed;
  copy_values(model, resumed);
  const auto other = make(resumed);
  torch::load(*other, archive);
  const auto batch = image_batch(8, torch::kFloat32);
  step(model, *optimizer, {batch});
  step(resumed, *other, {batch});
  expect_bit_identical(snapshot(*resumed), snapshot(*model));
}

TEST_P(EveryOptimizer, ThePolicyIsPartOfTheState) {
  SmallNet model;
  const auto optimizer = make(model, {{"non_finite_policy", "skip"}});
  const auto batch = image_batch(8, torch::kFloat32);
  step(model, *optimizer, {batch});
  const auto resumed = make(model);
  std::stringstream file;
  adaact::named_state(*optimizer).save(file);
  adaact::named_state(*resumed).load(file);
  const auto before = snapshot(*model);
  step(model, *resumed, {{batch.x * std::nan(""), batch.y}});
  expect_bit_identical(snapshot(*model), before);
}

TEST_P(EveryOptimizer, RefusesTheStateOfAnother) {
  SmallNet model;
  const auto optimizer = make(model);
  const auto other = adaact::make_optimizer(GetParam() == "lamb" ? "adan" : "lamb", *model);
  const auto before = state_bytes(*optimizer);
  std::stringstream file;
  adaact::named_state(*other).save(file);
  EXPECT_TRUE(
      contains(error_of([&] { adaact::named_state(*optimizer).load(file); }), "it belongs to"));
  EXPECT_EQ(state_bytes(*optimizer), before);
}

TEST_P(EveryOptimizer, TwoGroupsEachFollowItsOwnOptions) {
  SmallNet model;
  const auto optimizer = make(model, json::object(), adaact::DecayRule::NoVectors);
  ASSERT_EQ(optimizer->param_groups().size(), 2U);
  optimizer->param_groups()[1].options().set_lr(0.0);
  const auto before = snapshot(*model);
  for (int i = 0; i < 3; ++i) step(model, *optimizer, {image_batch(8, torch::kFloat32)});
  const auto parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(torch::equal(parameters[i], before[i]), parameters[i].dim() <= 1) << i;
  }
}

TEST_P(EveryOptimizer, TwoEqualGroupsAreOne) {
  SmallNet one;
  SmallNet two;
  copy_values(one, two);
  const auto single = make(one, {{"weight_decay", 0.0}});
  const auto split = make(two, {{"weight_decay", 0.0}}, adaact::DecayRule::NoVectors);
  for (int i = 0; i < 4; ++i) {
    const auto batch = image_batch(8, torch::kFloat32);
    step(one, *single, {batch});
    step(two, *split, {batch});
  }
  expect_close(snapshot(*two), snapshot(*one), 1e-6);
}

TEST_P(EveryOptimizer, FrozenAndUnusedParametersStay) {
  PlainNet model;
  model->conv->weight.set_requires_grad(false);
  model->fc->bias.set_requires_grad(false);
  const auto optimizer = make(model);
  const auto before = snapshot(*model);
  for (int i = 0; i < 4; ++i) step(model, *optimizer, {image_batch(8, torch::kFloat32)});
  const auto parameters = model->named_parameters();
  const std::set<std::string> still{"conv.weight", "fc.bias", "unused.weight", "unused.bias"};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(torch::equal(parameters[i].value(), before[i]), still.count(parameters[i].key()) != 0)
        << parameters[i].key();
  }
}

TEST_P(EveryOptimizer, ALayerMayBeFrozenAndFreedBetweenSteps) {
  PlainNet model;
  const auto optimizer = make(model);
  for (const bool trained : {true, false, true}) {
    model->conv->weight.set_requires_grad(trained);
    model->fc->bias.set_requires_grad(trained);
    const auto before = snapshot(*model);
    step(model, *optimizer, {image_batch(8, torch::kFloat32)});
    EXPECT_EQ(torch::equal(model->conv->weight, before[0]), !trained);
  }
}

TEST_P(EveryOptimizer, ANonFiniteGradientThrowsAndChangesNothing) {
  SmallNet model;
  SmallNet never_saw_it;
  copy_values(model, never_saw_it);
  const auto optimizer = make(model);
  const auto other = make(never_saw_it);
  const auto good = image_batch(8, torch::kFloat32);
  step(model, *optimizer, {good});
  step(never_saw_it, *other, {good});

  const auto before = snapshot(*model);
  const auto state = state_bytes(*optimizer);
  const auto run_bad_step = [&] {
    optimizer->step([&] {
      optimizer->zero_grad();
      auto loss = cross_entropy(model->forward(good.x), good.y) * std::nan("");
      loss.backward();
      return loss;
    });
  };
  EXPECT_THROW(run_bad_step(), adaact::NonFiniteError);
  EXPECT_TRUE(contains(error_of(run_bad_step), "is not finite"));
  expect_bit_identical(snapshot(*model), before);
  EXPECT_EQ(state_bytes(*optimizer), state);

  // The running statistics have seen the forward pass; everything else goes on as if it were not.
  copy_values(never_saw_it, model);
  for (int i = 0; i < 3; ++i) {
    const auto batch = image_batch(8, torch::kFloat32);
    step(model, *optimizer, {batch});
    step(never_saw_it, *other, {batch});
  }
  expect_bit_identical(snapshot(*model), snapshot(*never_saw_it));
}

TEST_P(EveryOptimizer, AClosureThatThrowsLeavesNothingBehind) {
  PlainNet model;
  PlainNet never_failed;
  copy_values(model, never_failed);
  const auto optimizer = make(model);
  const auto other = make(never_failed);
  EXPECT_TRUE(contains(error_of([&] {
                         optimizer->step([&]() -> torch::Tensor {
                           model->forward(image_batch(8, torch::kFloat32).x * 100.0);
                           throw std::runtime_error("out of memory");
                         });
                       }),
                       "out of memory"));
  for (int i = 0; i < 2; ++i) {
    const auto batch = image_batch(8, torch::kFloat32);
    step(model, *optimizer, {batch});
    step(never_failed, *other, {batch});
  }
  expect_bit_identical(snapshot(*model), snapshot(*never_failed));
}

TEST_P(EveryOptimizer, AnAutocastScopeAroundTheStepChangesNothing) {
  PlainNet model;
  PlainNet inside;
  copy_values(model, inside);
  const auto optimizer = make(model);
  const auto other = make(inside);
  // The closure computes in float32 in both: only the optimizer's own work might be cast.
  const auto forward = [](PlainNet& net, torch::optim::Optimizer& its, const Batch& batch) {
    return [&] {
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      its.zero_grad();
      auto loss = cross_entropy(net->forward(batch.x), batch.y);
      loss.backward();
      return loss;
    };
  };
  for (int i = 0; i < 3; ++i) {
    const auto batch = image_batch(8, torch::kFloat32);
    optimizer->step(forward(model, *optimizer, batch));
    const CpuAutocast autocast;
    other->step(forward(inside, *other, batch));
  }
  expect_bit_identical(snapshot(*inside), snapshot(*model));
}

TEST_P(EveryOptimizer, ANonFiniteGradientIsSkippedIfAsked) {
  SmallNet model;
  const auto optimizer = make(model, {{"non_finite_policy", "skip"}});
  const auto batch = image_batch(8, torch::kFloat32);
  step(model, *optimizer, {batch});
  const auto before = snapshot(*model);
  optimizer->step([&] {
    optimizer->zero_grad();
    auto loss = cross_entropy(model->forward(batch.x), batch.y) * std::nan("");
    loss.backward();
    return loss;
  });
  expect_bit_identical(snapshot(*model), before);
  step(model, *optimizer, {batch});
  for (const auto& parameter : model->parameters()) {
    EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
  }
}

TEST_P(EveryOptimizer, ChannelsLastWeightsTrainAlike) {
  PlainNet contiguous;
  contiguous->to(torch::kFloat64);
  PlainNet channels_last;
  channels_last->to(torch::kFloat64);
  copy_values(contiguous, channels_last);
  for (auto& parameter : channels_last->parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  const auto one = make(contiguous);
  const auto other = make(channels_last);
  for (int i = 0; i < 4; ++i) {
    const auto batch = image_batch(8);
    step(contiguous, *one, {batch});
    step(channels_last, *other, {batch});
  }
  EXPECT_TRUE(channels_last->conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
  expect_close(snapshot(*channels_last), snapshot(*contiguous), 1e-9);
}

TEST_P(EveryOptimizer, FollowsASchedule) {
  SmallNet model;
  const auto optimizer = make(model);
  const auto initial = optimizer->param_groups()[0].options().get_lr();
  adaact::ScheduledLR scheduler(*optimizer, adaact::step_schedule(1, 0.0));
  EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), initial);
  scheduler.step();
  const auto before = snapshot(*model);
  step(model, *optimizer, {image_batch(8, torch::kFloat32)});
  expect_bit_identical(snapshot(*model), before);
}

TEST_P(EveryOptimizer, AGraphOverOldParametersIsNoLongerValid) {
  if (GetParam() == "sgd") GTEST_SKIP() << "LibTorch's own SGD writes past autograd";
  PlainNet model;
  const auto optimizer = make(model);
  const auto batch = image_batch(8, torch::kFloat32);
  const auto old_loss = cross_entropy(model->forward(batch.x), batch.y);
  step(model, *optimizer, {batch});
  EXPECT_TRUE(contains(error_of([&] { old_loss.backward(); }), "modified by an inplace operation"));
}

TEST_P(EveryOptimizer, BadOptionsAreErrors) {
  SmallNet model;
  const auto error = [&](const json& options) {
    return error_of([&] { adaact::make_optimizer(GetParam(), *model, options.dump()); });
  };
  EXPECT_TRUE(contains(error({{"lr", -1.0}}), "lr is -1, expected a number ≥ 0"));
  EXPECT_TRUE(contains(error({{"lr", "fast"}}), "lr is \"fast\""));
  const auto unknown = error({{"learning_rate", 0.1}});
  EXPECT_TRUE(contains(unknown, "no option 'learning_rate'; there are: "));
  EXPECT_TRUE(contains(unknown, "weight_decay"));
  EXPECT_TRUE(contains(error({{"non_finite_policy", "hope"}}), "expected one of: skip, throw"));
}

TEST_P(EveryOptimizer, DefaultOptionsAreWhatIsUsed) {
  SmallNet implicit;
  SmallNet with_defaults;
  copy_values(implicit, with_defaults);
  const auto one = adaact::make_optimizer(GetParam(), *implicit);
  const auto other =
      adaact::make_optimizer(GetParam(), *with_defaults, adaact::default_options(GetParam()));
  const auto batch = image_batch(8, torch::kFloat32);
  step(implicit, *one, {batch});
  step(with_defaults, *other, {batch});
  expect_bit_identical(snapshot(*with_defaults), snapshot(*implicit));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimizer, ::testing::ValuesIn(adaact::optimizer_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
