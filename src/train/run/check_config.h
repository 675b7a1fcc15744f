#pragma once

#include <adaact/train/run_config.h>

namespace adaact {

/// Throws a c10::ValueError that names the first field that is wrong, its value and what was expected. Of a
/// configuration in which nothing is left open; the optimizer's options are its own to check.
void check_config(const RunConfig& config);

/// Checks the rates that stand beside the learning rate, once the optimizer's options are known to be right.
void check_rates(const RunConfig& config);

/// The learning rate among the options of the optimizer, or its default.
double learning_rate_of(const RunConfig& config);

}  // namespace adaact
