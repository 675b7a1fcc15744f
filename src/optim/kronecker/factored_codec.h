#pragma once

#include <cstdint>
#include <memory>

#include "optim/base/state_codec.h"
#include "optim/kronecker/kronecker_factors.h"

namespace adaact {

StateEntries factored_entries(const FactoredParamState& state);
/// Which factors an optimizer has: A alone, or A and P.
enum class FactorKinds : std::uint8_t { A, AAndP };
std::unique_ptr<FactoredParamState> factored_state_from(EntryReader& entries, FactorKinds kinds);

template <typename OptionsType, FactorKinds kKinds>
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
  std::unique_ptr<State> state_from(
      EntryReader& entries, const torch::optim::OptimizerOptions& /*options*/) const override {
    return factored_state_from(entries, kKinds);
  }
};

}  // namespace adaact
