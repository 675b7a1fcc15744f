#pragma once

#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// In what a form differs from the paper's setting: "epochs 3 instead of 200". Nothing where it is the
/// paper's; other seeds, or fewer runs, are no difference.
std::vector<std::string> departures_from_paper(const Experiment& experiment,
                                               const ExperimentForm& form);

}  // namespace adaact
