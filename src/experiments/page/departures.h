#pragma once

#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// Says in what a form differs from the paper's setting, such as "epochs 3 instead of 200". The list is empty where
/// the form is the paper's; other seeds, or fewer runs, are no difference.
std::vector<std::string> departures_from_paper(const Experiment& experiment,
                                               const ExperimentForm& form);

}  // namespace adaact
