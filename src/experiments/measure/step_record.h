#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

namespace adaact {

/// A number that every step has. Of a long training only the first steps are kept one by one.
class StepRecord {
 public:
  static constexpr std::size_t kFirstSteps = 200;

  void add(double value);
  void end_epoch();

  const std::vector<double>& first_steps() const { return first_steps_; }
  // Mean and maximum over the steps of each epoch.
  const std::vector<double>& means() const { return means_; }
  const std::vector<double>& maxima() const { return maxima_; }

  nlohmann::ordered_json to_json() const;
  /// An error where it is not the record of an epoch or more.
  static StepRecord from_json(const nlohmann::ordered_json& json);

 private:
  std::vector<double> first_steps_;
  std::vector<double> means_;
  std::vector<double> maxima_;
  std::vector<double> epoch_;  // all steps of the one that is not over yet
};

}  // namespace adaact
