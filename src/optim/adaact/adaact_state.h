#pragma once

#include <adaact/optim/adaact.h>

#include "optim/adaact/adaact_options.h"
#include "optim/base/state_codec.h"

namespace adaact {

class AdaActCodec : public OptionsCodec<AdaActOptions> {
 public:
  static const AdaActCodec& instance() {
    static const AdaActCodec codec;
    return codec;
  }
  StateEntries to_entries(const State& state) const override;
  std::unique_ptr<State> state_from(const StateEntries& entries, const NamedParameter& parameter,
                                    const std::string& source) const override;
};

}  // namespace adaact
