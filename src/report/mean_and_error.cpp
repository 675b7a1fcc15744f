#include "report/mean_and_error.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <c10/util/Exception.h>

namespace adaact {

MeanAndError mean_and_error(const std::vector<double>& values) {
  TORCH_CHECK(!values.empty(), "mean_and_error: no values, expected one at least");
  const auto count = static_cast<double>(values.size());
  MeanAndError result;
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  result.standard_error = std::numeric_limits<double>::quiet_NaN();
  if (values.size() == 1) return result;
  double squares = 0.0;
  for (const auto value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (count - 1.0) / count);
  return result;
}

}  // namespace adaact
