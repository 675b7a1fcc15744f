#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "report/mean_and_error.h"
#include "report/run_groups.h"

namespace adaact {

/// A number that groups are compared by.
struct Compared {
  MeanAndError value{std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::quiet_NaN()};  // over the seeds
  bool is_best = false;  // of the groups with the same data, unless all are the same
};

/// What a report says of a group of runs: on the page, in the terminal and as JSON.
struct GroupSummary {
  std::string name;
  std::vector<std::uint64_t> seeds;
  std::string model;
  std::string data;  // of own images with their folder
  std::string optimizer;
  std::string learning_rate;
  std::string epochs;  // "3", "2 of 5", "2 to 4 of 5"
  std::string state;  // "not finished", "1 of 3 seeds diverged in epoch 2"; empty where all is well
  Compared train_loss;
  Compared test_loss;
  Compared final_top1;
  Compared best_top1;
  std::optional<std::int64_t> best_epoch;  // counted from 1; of a single run
  double seconds = 0.0;                    // the mean; NaN where none were counted
  double images_per_second = 0.0;          // the median of all epochs; NaN before the first
  std::optional<std::int64_t> parameters;
};

std::vector<GroupSummary> summaries_of(const std::vector<RunGroup>& groups);

/// The data of a run as a report calls them: "cifar10", "image-folder pets".
std::string data_of(const RunConfig& config);

}  // namespace adaact
