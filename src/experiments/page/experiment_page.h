#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// "agrees", "disagrees", "open".
std::string verdict_text(Finding::Verdict verdict);

/// How a page came about.
struct PageOrigin {
  std::string command;
  std::vector<std::pair<std::string, std::string>> facts;  // versions
};

/// One HTML page with an experiment's figures and tables, what the paper says beside what was measured,
/// and the runs that it is made of. It says at the top what is missing, and what is not as in the paper:
/// then there is no word about what the paper says. Needs gnuplot on the PATH.
void write_experiment_page(const Experiment& experiment, const ExperimentForm& form,
                           const Found& found, const std::filesystem::path& path,
                           const PageOrigin& origin);

}  // namespace adaact
