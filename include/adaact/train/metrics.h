#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace adaact {

/// What one step was like. Training numbers are those of the step's own batch, before the step.
struct StepMetrics {
  std::int64_t step = 0;   // 1, 2, …
  std::int64_t epoch = 0;  // 0, 1, …
  double loss = 0.0;
  double top1 = 0.0;  // fraction
  double learning_rate = 0.0;
  double seconds = 0.0;       // of the step, without waiting for data
  double wait_seconds = 0.0;  // for data
  double images_per_second = 0.0;
  double gradient_norm = 0.0;         // of all parameters together, before clipping
  std::optional<double> update_norm;  // of what the step changed; in some steps only
};

/// One pass over a test set.
struct Evaluation {
  double loss = 0.0;
  double top1 = 0.0;  // fractions
  double top5 = 0.0;
  std::int64_t images = 0;
};

/// E[a²] of the input of each layer, by the name of its weight, in the order of the model.
using SecondMoments = std::vector<std::pair<std::string, double>>;

/// How much the input of a layer varies over the images of a batch: each value of the flattened input
/// has a variance, in every step of an epoch.
struct ActivationVariance {
  std::string layer;          // the name of its weight
  double mean = 0.0;          // over values and steps
  double lowest_mean = 0.0;   // over values, in the step where it is lowest
  double highest_mean = 0.0;  // and where it is highest
  double lowest = 0.0;        // of a single value in a single step
  double highest = 0.0;
  double lowest_moment = 0.0;   // E[a²] over the batch, of a single value in a single step;
  double highest_moment = 0.0;  // NaN where the record of a run does not have it
};

struct EpochMetrics {
  std::int64_t step = 0;   // the last one
  std::int64_t epoch = 0;  // 0, 1, …
  double train_loss = 0.0;
  double train_top1 = 0.0;
  Evaluation test;
  double seconds = 0.0;  // of training since the run began; evaluation and pauses left out
  double images_per_second = 0.0;                        // of training in this epoch
  SecondMoments second_moments;                          // over the last step of the epoch
  std::vector<ActivationVariance> activation_variances;  // where they were asked for
};

/// How a run ended before its last epoch: a gradient or a statistic was not finite.
struct Divergence {
  std::int64_t step =
      0;  // that was rejected; a later one if a graph's losses were finite all the same
  std::int64_t epoch = 0;  // 0, 1, …
  std::string message;     // of the optimizer
};

}  // namespace adaact
