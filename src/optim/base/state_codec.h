#pragma once

#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <torch/optim/optimizer.h>

#include "optim/base/describe_options.h"

namespace adaact {

/// What is kept for one parameter, by entry: "exp_avg", "step".
using StateEntries = std::map<std::string, torch::Tensor>;

/// Tells the rest of the library about the types of one optimizer: LibTorch's or one of ours.
class StateCodec {
 public:
  using Options = torch::optim::OptimizerOptions;
  using State = torch::optim::OptimizerParamState;

  virtual ~StateCodec() = default;

  virtual std::string optimizer() const = 0;  // "AdaAct"
  /// Throws where options are of another optimizer or out of range.
  virtual void check(const Options& options) const = 0;
  virtual NonFinitePolicy non_finite_policy(const Options& options) const = 0;
  virtual std::string to_json(const Options& options) const = 0;
  virtual std::unique_ptr<Options> options_from(const std::string& json) const = 0;
  virtual void assign(Options& to, const Options& from) const = 0;

  virtual StateEntries to_entries(const State& state) const = 0;
  /// Checks everything a step relies on: a file may be whole and still be nonsense.
  virtual std::unique_ptr<State> state_from(const StateEntries& entries,
                                            const NamedParameter& parameter,
                                            const std::string& source) const = 0;
};

/// An entry that a state may lack.
struct MayBeAbsent {};

/// The entries of a simple state, tensors of the parameter's shape and counters:
///   static void visit(State& state, Visitor&& visit) { visit("exp_avg", state.exp_avg()); … }
template <typename State>
struct StateDescription;

[[noreturn]] void throw_misfit(const std::string& entry, const torch::Tensor& value,
                               const NamedParameter& parameter, const std::string& source);
[[noreturn]] void throw_missing_entry(const std::string& entry, const NamedParameter& parameter,
                                      const std::string& source);
[[noreturn]] void throw_unknown_entry(const std::string& entry, const NamedParameter& parameter,
                                      const std::string& source);
std::int64_t counter_from(const torch::Tensor& tensor, const std::string& entry,
                          const NamedParameter& parameter, const std::string& source);

/// The options part of a codec, from OptionDescription.
template <typename OptionsType>
class OptionsCodec : public StateCodec {
 public:
  std::string optimizer() const override { return optimizer_name<OptionsType>(); }
  void check(const Options& options) const override {
    const auto* typed = dynamic_cast<const OptionsType*>(&options);
    TORCH_CHECK(typed != nullptr, optimizer(), ": the options of a parameter group are not ",
                optimizer(), "Options");
    validate_options(*typed);
  }
  NonFinitePolicy non_finite_policy(const Options& options) const override {
    if constexpr (std::is_base_of_v<JsonOptions<OptionsType>, OptionsType>) {
      return cast(options).non_finite_policy();
    } else {
      return NonFinitePolicy::Throw;  // LibTorch's options do not say; its wrapper does
    }
  }
  std::string to_json(const Options& options) const override {
    return options_to_json(cast(options)).dump();
  }
  std::unique_ptr<Options> options_from(const std::string& json) const override {
    // LibTorch's SGDOptions has no default learning rate; a state always holds one.
    if constexpr (std::is_default_constructible_v<OptionsType>) {
      return std::make_unique<OptionsType>(options_from_json(parse_options(json), OptionsType()));
    } else {
      return std::make_unique<OptionsType>(
          options_from_json(parse_options(json), OptionsType(0.0)));
    }
  }
  void assign(Options& to, const Options& from) const override {
    static_cast<OptionsType&>(to) = cast(from);
  }

 private:
  static const OptionsType& cast(const Options& options) {
    return static_cast<const OptionsType&>(options);
  }
};

/// A codec for an optimizer whose state has a StateDescription.
template <typename OptionsType, typename StateType>
class SimpleCodec : public OptionsCodec<OptionsType> {
 public:
  using typename StateCodec::State;

  static const SimpleCodec& instance() {
    static const SimpleCodec codec;
    return codec;
  }

  StateEntries to_entries(const State& state) const override {
    ToEntries visitor;
    StateDescription<StateType>::visit(static_cast<const StateType&>(state), visitor);
    return visitor.entries;
  }
  std::unique_ptr<State> state_from(const StateEntries& entries, const NamedParameter& parameter,
                                    const std::string& source) const override {
    auto state = std::make_unique<StateType>();
    FromEntries visitor{entries, parameter, source};
    StateDescription<StateType>::visit(*state, visitor);
    if (!visitor.entries.empty()) {
      throw_unknown_entry(visitor.entries.begin()->first, parameter, source);
    }
    return state;
  }

 private:
  struct ToEntries {
    StateEntries entries;
    void operator()(const char* entry, std::int64_t count) {
      entries[entry] = torch::tensor(count, torch::kInt64);
    }
    void operator()(const char* entry, const torch::Tensor& tensor, MayBeAbsent /*tag*/ = {}) {
      if (tensor.defined()) entries[entry] = tensor.detach().clone();
    }
  };

  struct FromEntries {
    StateEntries entries;  // what has been read is taken out
    const NamedParameter& parameter;
    const std::string& source;

    void operator()(const char* entry, std::int64_t& count) {
      const auto tensor = take(entry);
      if (!tensor.defined()) throw_missing_entry(entry, parameter, source);
      count = counter_from(tensor, entry, parameter, source);
    }
    void operator()(const char* entry, torch::Tensor& value) {
      (*this)(entry, value, MayBeAbsent());
      if (!value.defined()) throw_missing_entry(entry, parameter, source);
    }
    void operator()(const char* entry, torch::Tensor& value, MayBeAbsent /*tag*/) {
      const auto tensor = take(entry);
      if (!tensor.defined()) return;
      if (tensor.sizes() != parameter.tensor.sizes() || !tensor.is_floating_point()) {
        throw_misfit(entry, tensor, parameter, source);
      }
      value = tensor.to(parameter.tensor.device(), /*non_blocking=*/false, /*copy=*/true);
    }
    torch::Tensor take(const char* entry) {
      const auto found = entries.find(entry);
      if (found == entries.end()) return {};
      auto tensor = found->second;
      entries.erase(found);
      return tensor;
    }
  };
};

/// A step is rejected as a whole, so the policy must be the same in all groups.
void check_same_policy(const StateCodec& codec, const torch::optim::OptimizerOptions& options,
                       const torch::optim::OptimizerOptions& of_first_group);

/// The state of all parameters in an optimizer's groups, under their names.
OptimizerState export_named_state(const torch::optim::Optimizer& optimizer, const LayerMap& model,
                                  const StateCodec& codec);

/// Takes over a state that fits, or throws and leaves the optimizer as it was.
void import_named_state(torch::optim::Optimizer& optimizer, const LayerMap& model,
                        const StateCodec& codec, const OptimizerState& saved,
                        const std::string& source);

/// The counters of steps that were taken, and of those that were not because something was not finite.
inline constexpr char kSteps[] = "steps";
inline constexpr char kSkippedSteps[] = "skipped_steps";

std::int64_t counter_of(const OptimizerState& state, const std::string& counter,
                        const std::string& source);

/// Index in the model of a parameter in a group, or an error.
std::size_t index_in_model(const LayerMap& model, const torch::Tensor& parameter,
                           const std::string& optimizer);

// LibTorch's archives (torch::save) hold the same named state, as bytes.
void write_to_archive(const OptimizerState& state, torch::serialize::OutputArchive& archive);
OptimizerState read_from_archive(torch::serialize::InputArchive& archive);

}  // namespace adaact
