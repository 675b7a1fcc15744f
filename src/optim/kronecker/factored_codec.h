#pragma once

#include "optim/base/state_codec.h"
#include "optim/kronecker/kronecker_factors.h"

namespace adaact {

StateEntries factored_entries(const FactoredParamState& state);
std::unique_ptr<FactoredParamState> factored_state_from(const StateEntries& entries,
                                                        const NamedParameter& parameter,
                                                        const std::string& source);

template <typename OptionsType>
class FactoredCodec : public OptionsCodec<OptionsType> {
 public:
  using typename StateCodec::State;

  static const FactoredCodec& instance() {
    static const FactoredCodec codec;
    return codec;
  }
  StateEntries to_entries(const State& state) const override {
    return factored_entries(static_cast<const FactoredParamState&>(state));
  }
  std::unique_ptr<State> state_from(const StateEntries& entries, const NamedParameter& parameter,
                                    const std::string& source) const override {
    return factored_state_from(entries, parameter, source);
  }
};

}  // namespace adaact
