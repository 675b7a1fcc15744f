#pragma once

#include <string>
#include <vector>

#include <adaact/report/run_history.h>
#include <nlohmann/json.hpp>

namespace adaact {

// How runs that diverged are told of, and what accuracy they count with.

/// "diverged in epoch 3", of several "3, 5"; empty where none of them did.
std::string divergence_text(const std::vector<const RunHistory*>& runs);
/// The divergences of these runs as --json prints them: a list of {seed, epoch}.
nlohmann::ordered_json divergences_json(const std::vector<const RunHistory*>& runs);

/// Top-1 of a classifier that has learned nothing, a fraction: one in as many as there are classes.
/// NaN of a data set whose classes nobody knows.
double accuracy_of_guessing(const std::string& dataset);

}  // namespace adaact
