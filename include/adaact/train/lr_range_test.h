#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/trainer.h>
#include <torch/optim/optimizer.h>

namespace adaact {

struct LrRangeOptions {
  double from = 1e-6;  // the first learning rate
  double to = 10.0;    // the last; those between grow by the same factor from step to step
  std::int64_t steps = 100;

  /// An error that names the field, its value and what was expected.
  void check() const;
};

struct LrRangePoint {
  double learning_rate = 0.0;
  double loss = 0.0;      // of the batch after the step with this rate
  double smoothed = 0.0;  // the mean of this one and its neighbours
};

/// What a range test found.
struct LrRangeResult {
  double first_loss = 0.0;  // before any step
  std::vector<LrRangePoint> points;
  /// The rate where the loss was four times as high as it had been at its lowest, or no longer finite.
  std::optional<double> exploded_at;
  /// The rate where the smoothed loss falls fastest, against the logarithm of the rate; nothing where it
  /// never falls.
  std::optional<double> steepest;
  bool interrupted = false;  // TrainerOptions::should_stop ended it

  /// A tenth of where the loss explodes: a rate to begin a search with that leaves room for noise.
  std::optional<double> tenth_of_explosion() const;
};

/// The learning-rate range test (Smith, "Cyclical learning rates for training neural networks", WACV 2017):
/// trains with a rate that grows from step to step until the loss explodes.
///
///   const auto found = adaact::lr_range_test(*model, *optimizer, loader);
///   if (found.steepest) …
///
/// Works with any optimizer whose learning rate is not 0; where groups have different ones, these keep their
/// ratio, and the rates here are those of the first group. The model and the optimizer are worthless after
/// it: give it their like. Of `options` epochs, schedule and graph are not used.
LrRangeResult lr_range_test(Model& model, torch::optim::Optimizer& optimizer, Loader& train_data,
                            const LrRangeOptions& range = {}, TrainerOptions options = {});

}  // namespace adaact
