#include "experiments/measure/step_record.h"

#include <algorithm>
#include <numeric>

#include <c10/util/Exception.h>

namespace adaact {

void StepRecord::add(double value) {
  if (first_steps_.size() < kFirstSteps) first_steps_.push_back(value);
  epoch_.push_back(value);
}

void StepRecord::end_epoch() {
  if (epoch_.empty()) return;
  const auto sum = std::accumulate(epoch_.begin(), epoch_.end(), 0.0);
  means_.push_back(sum / static_cast<double>(epoch_.size()));
  maxima_.push_back(*std::max_element(epoch_.begin(), epoch_.end()));
  epoch_.clear();
}

nlohmann::ordered_json StepRecord::to_json() const {
  return {{"first_steps", first_steps_}, {"epoch_means", means_}, {"epoch_maxima", maxima_}};
}

StepRecord StepRecord::from_json(const nlohmann::ordered_json& json) {
  StepRecord record;
  json.at("first_steps").get_to(record.first_steps_);
  json.at("epoch_means").get_to(record.means_);
  json.at("epoch_maxima").get_to(record.maxima_);
  TORCH_CHECK(!record.means_.empty() && record.means_.size() == record.maxima_.size(),
              "a record of steps has means of ", record.means_.size(), " epochs and maxima of ",
              record.maxima_.size(), ", expected as many of both and one at least");
  return record;
}

}  // namespace adaact
