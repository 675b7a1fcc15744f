#pragma once

#include <string>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// What carrying out a plan takes, as far as it was ever measured.
struct Cost {
  double seconds = 0.0;  // of the runs whose time is known
  bool is_all = true;    // no run is left out
};

enum class CostOn { TwoCores, Gpu };

/// The cost of a plan's training, from the time of a step of each model, and of its measurements
/// that tell how long they take.
Cost estimate_cost(const ExperimentPlan& plan, CostOn machine);

/// "about 14 min", "over 3 h" where runs are left out, and "–" where nothing is known.
std::string cost_text(const Cost& cost);

}  // namespace adaact
