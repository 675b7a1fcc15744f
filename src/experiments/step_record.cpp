#include "experiments/step_record.h"

#include <algorithm>
#include <numeric>

#include "experiments/tenth.h"

namespace adaact {
namespace {

template <typename Iterator>
double mean_of(Iterator begin, Iterator end) {
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

std::ptrdiff_t tenth(const std::vector<double>& epochs) {
  return static_cast<std::ptrdiff_t>(tenth_of(epochs.size()));
}

}  // namespace

void StepRecord::add(double value) {
  if (first_steps_.size() < kFirstSteps) first_steps_.push_back(value);
  epoch_.push_back(value);
}

void StepRecord::end_epoch() {
  if (epoch_.empty()) return;
  means_.push_back(mean_of(epoch_.begin(), epoch_.end()));
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
  return record;
}

double mean_of_first_tenth(const std::vector<double>& epochs) {
  return mean_of(epochs.begin(), epochs.begin() + tenth(epochs));
}

double mean_of_second_tenth(const std::vector<double>& epochs) {
  if (epochs.size() < 2) return mean_of_first_tenth(epochs);
  return mean_of(epochs.begin() + tenth(epochs), epochs.begin() + 2 * tenth(epochs));
}

double mean_of_last_tenth(const std::vector<double>& epochs) {
  return mean_of(epochs.end() - tenth(epochs), epochs.end());
}

}  // namespace adaact
