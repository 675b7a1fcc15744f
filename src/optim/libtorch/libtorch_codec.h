#pragma once

// LibTorch's own options and states, told to the rest of the library.

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "optim/base/state_codec.h"

namespace adaact {

template <>
struct OptionDescription<torch::optim::SGDOptions> {
  static constexpr char kOptimizer[] = "SGD";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    visit("lr", options.lr(), at_least(0.0));
    visit("momentum", options.momentum(), at_least(0.0));
    visit("dampening", options.dampening(), at_least(0.0));
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("nesterov", options.nesterov(), AnyBool());
  }
  static void check(const torch::optim::SGDOptions& options) {
    TORCH_CHECK(!options.nesterov() || (options.momentum() > 0.0 && options.dampening() == 0.0),
                kOptimizer, ": nesterov needs momentum > 0 and dampening 0; momentum is ",
                options.momentum(), ", dampening ", options.dampening());
  }
};

/// Adam's and AdamW's options have the same names.
struct AdamLikeOptions {
  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    visit("lr", options.lr(), at_least(0.0));
    visit("betas", options.betas(), from_up_to(0.0, 1.0));
    visit("eps", options.eps(), at_least(0.0));
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("amsgrad", options.amsgrad(), AnyBool());
  }
};
template <>
struct OptionDescription<torch::optim::AdamOptions> : AdamLikeOptions {
  static constexpr char kOptimizer[] = "Adam";
};
template <>
struct OptionDescription<torch::optim::AdamWOptions> : AdamLikeOptions {
  static constexpr char kOptimizer[] = "AdamW";
};

template <>
struct StateDescription<torch::optim::SGDParamState> {
  template <typename State, typename Visitor>
  static void visit(State& state, Visitor&& visit) {
    visit("momentum_buffer", state.momentum_buffer());
  }
};

struct AdamLikeState {
  template <typename State, typename Visitor>
  static void visit(State& state, Visitor&& visit) {
    visit("step", state.step());
    visit("exp_avg", state.exp_avg());
    visit("exp_avg_sq", state.exp_avg_sq(), second_moments());
    visit(kMaximum, state.max_exp_avg_sq(), second_moments().or_absent());
  }
  template <typename State, typename Options>
  static void check(const State& state, const Options& options, const EntryReader& entries) {
    if (options.amsgrad() && !state.max_exp_avg_sq().defined()) entries.throw_missing(kMaximum);
  }

 private:
  static constexpr char kMaximum[] = "max_exp_avg_sq";
};
template <>
struct StateDescription<torch::optim::AdamParamState> : AdamLikeState {};
template <>
struct StateDescription<torch::optim::AdamWParamState> : AdamLikeState {};

// LibTorch's options do not hold the policy for values that are not finite; in JSON they do, as all
// others.
constexpr char kPolicyOption[] = "non_finite_policy";
void write_policy(nlohmann::json& options, NonFinitePolicy policy);
void describe_policy(nlohmann::json& descriptions);
/// Takes the policy out of the options; NonFinitePolicy::Throw where they do not say.
NonFinitePolicy take_policy(nlohmann::json& options, const std::string& optimizer);

/// The codec of SGD, Adam or AdamW, wrapped or not; null for any other optimizer.
const StateCodec* codec_of_libtorch(const torch::optim::Optimizer& optimizer);

}  // namespace adaact
