#pragma once

// AdaAct's options and state, told to the rest of the library.

#include <cmath>

#include <adaact/optim/adaact.h>

#include "optim/base/state_codec.h"

namespace adaact {

template <>
struct OptionDescription<AdaActOptions> {
  static constexpr char kOptimizer[] = "AdaAct";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    static const EnumNames<Covariance> covariances{{"diagonal", Covariance::Diagonal},
                                                   {"full", Covariance::Full}};
    static const EnumNames<UnobservedRule> rules{{"plain_gradient", UnobservedRule::PlainGradient},
                                                 {"momentum", UnobservedRule::Momentum}};
    visit("lr", options.lr(), at_least(0.0));
    visit("betas", options.betas(), from_up_to(0.0, 1.0));
    visit("eps", options.eps(), divisor());
    visit("weight_decay", options.weight_decay(), at_least(0.0));
    visit("power", options.power(), at_least(0.0));
    visit("clip_range", options.clip_range(), at_least(0.0).or_infinity());
    visit("covariance", options.covariance(), covariances);
    visit("damping", options.damping(), at_least(0.0));
    visit("refresh_period", options.refresh_period(), at_least(1));
    visit("unobserved_rule", options.unobserved_rule(), rules);
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }

  static void check(const AdaActOptions& options) {
    const auto [low, high] = options.clip_range();
    const bool clips = low > 0.0 || !std::isinf(high);
    TORCH_CHECK(low < high, kOptimizer, ": clip_range is [", low, ", ", high,
                "], expected low < high");
    TORCH_CHECK(options.covariance() == Covariance::Diagonal || !clips, kOptimizer,
                ": clip_range is [", low, ", ", high,
                "], but the full covariance cannot be clipped");
  }
};

class AdaActCodec : public OptionsCodec<AdaActOptions> {
 public:
  static const AdaActCodec& instance() {
    static const AdaActCodec codec;
    return codec;
  }
  /// Only the plain gradient has a meaning for complex parameters, because no complex layer is observed.
  bool takes_complex(const Options& options) const override {
    return static_cast<const AdaActOptions&>(options).unobserved_rule() ==
           UnobservedRule::PlainGradient;
  }
  StateEntries to_entries(const State& state) const override;
  std::unique_ptr<State> state_from(EntryReader& entries, const Options& options) const override;
};

}  // namespace adaact
