#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <adaact/data/dataset.h>
#include <adaact/train/run_config.h>

#include "experiments/measure/step_record.h"

namespace adaact {

// The effective step of a weight is η/(√v̂ + ε), with the v̂ of its input: one number for each column of
// a layer's weight. Here every weight counts, a column as often as it has rows. Biases are left
// out: their v̂ is always 1.

/// An input with a smaller v̂ is idle: a neuron that has been silent, whatever the image, from the
/// beginning or for thousands of steps. Its weights have no gradient, so that the length of their step,
/// which grows without end, says nothing. It is left out of a number that compares two steps where it is
/// idle in both of them; one that falls idle or wakes up counts.
inline constexpr double kIdle = 1e-6;

/// How the effective step changes from step to step, beginning with the second.
struct StepSizeChanges {
  StepRecord change;       // mean over weights of |η_t/√v̂_t − η_{t−1}/√v̂_{t−1}|
  StepRecord growing;      // share of weights of which the step is larger than before
  StepRecord idle;         // how many inputs are idle both before the step and after it
  StepRecord idle_in_one;  // how many are idle before it or after it only
  // The same change of those inputs alone that are idle neither before nor after the step, because one that wakes
  // up can change more than all others together; the mean step beside it; and without η the mean of
  // |1/√v̂_t − 1/√v̂_{t−1}| in proportion to that of 1/√v̂_t.
  StepRecord awake_change;
  StepRecord awake_step;
  StepRecord awake_root_change;
};

/// How the trainings on S and S′ differ. Symbols and indices are those of the stability theorem;
/// its Δ_t is what the steps before t have made, so step t makes Δ_{t+1}.
struct NeighbourDifferences {
  StepRecord term_a;        // ‖1/√v̂_t − 1/√v̂′_t‖₂
  StepRecord root_norm;     // ‖1/√v̂_t‖₂, beside which the first is large or small
  StepRecord awake_term_a;  // both once more of inputs that are idle in neither training: one that
  StepRecord awake_root_norm;  // is in one of them can be larger than all others together
  StepRecord term_b;           // Σ_{k ≤ t} β₁^{t−k} (1 − β₁) Δ_k
  StepRecord delta;            // Δ_{t+1} = ‖θ_{t+1} − θ′_{t+1}‖₂
  StepRecord norm;             // ‖θ_{t+1}‖₂
  StepRecord idle;             // inputs, in both trainings
  StepRecord idle_in_one;      // in one of them only
};

/// Takes a line about each epoch. What it throws ends the measurement.
using Progress = std::function<void(const std::string&)>;

/// Trains with AdaAct as the configuration says: its schedule, and data prepared by so many threads.
StepSizeChanges step_size_changes(const RunConfig& config, std::shared_ptr<const Dataset> data,
                                  std::int64_t workers, const Progress& progress);

/// Trains twice, step by step side by side, from the same weights and in the same order of samples. The
/// learning rate stays what it is.
NeighbourDifferences neighbour_differences(const RunConfig& config,
                                           std::shared_ptr<const Dataset> data,
                                           std::shared_ptr<const Dataset> neighbour,
                                           std::int64_t workers, const Progress& progress);

}  // namespace adaact
