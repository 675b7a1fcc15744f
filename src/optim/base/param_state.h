#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <torch/optim/optimizer.h>

namespace adaact {

/// The key under which LibTorch's optimizers keep a parameter's state: a string up to 2.1, a pointer
/// after.
template <typename StateMap>
typename StateMap::key_type param_state_key(const torch::Tensor& parameter) {
  if constexpr (std::is_same_v<typename StateMap::key_type, std::string>) {
    std::ostringstream address;  // written as LibTorch's own optimizers write it
    address << static_cast<const void*>(parameter.unsafeGetTensorImpl());
    return address.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

/// The state of a parameter in an optimizer's map, made if absent.
template <typename State, typename StateMap>
State& get_or_make_param_state(StateMap& states, const torch::Tensor& parameter) {
  auto& slot = states[param_state_key<StateMap>(parameter)];
  if (!slot) slot = std::make_unique<State>();
  return static_cast<State&>(*slot);
}

/// The state of a parameter, or null.
template <typename State, typename StateMap>
const State* find_param_state(const StateMap& states, const torch::Tensor& parameter) {
  const auto found = states.find(param_state_key<StateMap>(parameter));
  return found == states.end() ? nullptr : static_cast<const State*>(found->second.get());
}

/// These parameters have taken so many further steps.
template <typename State, typename StateMap>
void count_steps(StateMap& states, const std::vector<torch::Tensor>& parameters,
                 std::int64_t steps) {
  for (const auto& parameter : parameters) {
    auto& state = get_or_make_param_state<State>(states, parameter);
    state.step(state.step() + steps);
  }
}

}  // namespace adaact
