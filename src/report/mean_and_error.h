#pragma once

#include <vector>

namespace adaact {

/// The mean of several measurements of the same thing and how far it can be trusted.
struct MeanAndError {
  double mean = 0.0;
  double standard_error = 0.0;  // of the mean; NaN for a single measurement
};

/// Needs one value at least.
MeanAndError mean_and_error(const std::vector<double>& values);

}  // namespace adaact
