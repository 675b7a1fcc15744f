#pragma once

#include <cstdint>
#include <string>

#include <adaact/train/trainer.h>

namespace adaact {

/// How much there is to train.
struct TrainingExtent {
  std::int64_t epochs = 0;
  std::int64_t images = 0;  // of an epoch
  std::int64_t batches = 0;
  std::int64_t batch_size = 0;
  std::int64_t accumulation = 0;       // batches a step
  std::int64_t activation_totals = 0;  // numbers, where they are measured
};

/// "'batch' is 99, expected 0 to 20, …" of a state that such a training cannot come to; empty where it can.
std::string problem_with_state(const TrainerState& state, const TrainingExtent& extent);

}  // namespace adaact
