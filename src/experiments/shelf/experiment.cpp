#include "experiments/shelf/experiment.h"

#include <algorithm>

namespace adaact {
namespace {

bool run_is_there(const Found::Run& run) { return run.history.has_value(); }
bool measurement_is_there(const Found::Measurement& measurement) {
  return measurement.measured.has_value();
}

}  // namespace

bool Found::is_empty() const {
  return std::none_of(runs.begin(), runs.end(), run_is_there) &&
         std::none_of(measurements.begin(), measurements.end(), measurement_is_there);
}

bool Found::is_complete() const {
  return std::all_of(runs.begin(), runs.end(), run_is_there) &&
         std::all_of(measurements.begin(), measurements.end(), measurement_is_there);
}

}  // namespace adaact
