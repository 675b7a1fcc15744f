#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact::testing {

/// For measurements that tell of their progress.
inline void say_nothing(const std::string& /*line*/) {}

/// The measurements of the paper's setting, in the order of the plan; those beyond the given ones were
/// not carried out yet.
inline Found found_measurements(const Experiment& experiment,
                                const std::vector<Measured>& measured) {
  Found found;
  for (const auto& planned : experiment.plan({}).measurements) {
    const auto index = found.measurements.size();
    found.measurements.push_back({planned, std::nullopt});
    if (index < measured.size()) found.measurements.back().measured = measured[index];
  }
  return found;
}

}  // namespace adaact::testing
