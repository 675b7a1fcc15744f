#pragma once

#include <adaact/train/run_config.h>

namespace adaact {

/// Puts actual values in place of "auto" and kToFit: what fits the weights to begin with, the data set and, of
/// an image folder, the number of its images. Fields that are wrong are left to whoever checks them.
void choose_defaults(RunConfig& config);

}  // namespace adaact
