#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <adaact/optim/named_state.h>
#include <torch/optim/optimizer.h>

#include "io/error_text.h"
#include "optim/base/describe_options.h"
#include "optim/base/entry_reader.h"

namespace adaact {

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
  /// Most rules have no meaning for complex parameters.
  virtual bool takes_complex(const Options& options) const = 0;
  virtual std::string to_json(const Options& options) const = 0;
  virtual std::unique_ptr<Options> options_from(const std::string& json) const = 0;
  virtual void assign(Options& to, const Options& from) const = 0;

  virtual StateEntries to_entries(const State& state) const = 0;
  /// Checks everything that a step with these options relies on. What the reader has beyond it is an error
  /// of its own.
  virtual std::unique_ptr<State> state_from(EntryReader& entries, const Options& options) const = 0;
};

/// The entries of a simple state, tensors of the parameter's shape and counters:
///   static void visit(State& state, Visitor&& visit) { visit("exp_avg", state.exp_avg()); … }
/// and, where it depends on the options what must be there, in addition
///   static void check(const State& state, const Options& options, const EntryReader& entries);
template <typename State>
struct StateDescription;

template <typename State, typename Options, typename = void>
struct HasStateCheck : std::false_type {};
template <typename State, typename Options>
struct HasStateCheck<State, Options,
                     std::void_t<decltype(StateDescription<State>::check(
                         std::declval<const State&>(), std::declval<const Options&>(),
                         std::declval<const EntryReader&>()))>> : std::true_type {};

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
  bool takes_complex(const Options& /*options*/) const override {
    return !std::is_base_of_v<JsonOptions<OptionsType>, OptionsType>;  // LibTorch's own rules do
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
  std::unique_ptr<State> state_from(EntryReader& entries,
                                    const torch::optim::OptimizerOptions& options) const override {
    auto state = std::make_unique<StateType>();
    StateDescription<StateType>::visit(*state, FromEntries{entries});
    if constexpr (HasStateCheck<StateType, OptionsType>::value) {
      StateDescription<StateType>::check(*state, static_cast<const OptionsType&>(options), entries);
    }
    return state;
  }

 private:
  struct ToEntries {
    StateEntries entries;
    void operator()(const char* entry, std::int64_t count) {
      entries[entry] = torch::tensor(count, torch::kInt64);
    }
    void operator()(const char* entry, const torch::Tensor& tensor,
                    const EntryRule& /*rule*/ = {}) {
      if (tensor.defined()) entries[entry] = tensor.detach().clone();
    }
  };

  struct FromEntries {
    EntryReader& entries;
    void operator()(const char* entry, std::int64_t& count) const { count = entries.count(entry); }
    void operator()(const char* entry, torch::Tensor& value, const EntryRule& rule = {}) const {
      value = entries.tensor(entry, rule);
    }
  };
};

/// What reading options from a file returns; its error then names the file.
template <typename Read>
auto options_in(const std::string& source, Read&& read) {
  try {
    return read();
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, "adaact: ", source,
                ": the options of a parameter group: ", error_text_within_line(error));
  }
}

/// Whether two groups have the same parameters. Files of before list a tied one under each of its places.
bool name_the_same(const std::vector<std::string>& names, const std::vector<std::string>& others);

/// A step is rejected as a whole, so the policy must be the same in all groups.
void check_same_policy(const StateCodec& codec, const torch::optim::OptimizerOptions& options,
                       const torch::optim::OptimizerOptions& of_first_group);

/// An error where a parameter is complex and the rule of its group has no meaning for it.
void check_complex(const StateCodec& codec, const torch::optim::OptimizerOptions& options,
                   const NamedParameter& parameter);

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
