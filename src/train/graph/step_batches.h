#pragma once

#include <algorithm>
#include <cstdint>

namespace adaact {

/// The batches of an epoch that make one step.
struct StepBatches {
  std::int64_t count = 0;
  bool is_last = false;  // of the epoch
};

/// Of a step that begins with batch `first` where `accumulation` batches make one: the last of an epoch has what is
/// left.
constexpr StepBatches step_batches(std::int64_t first, std::int64_t accumulation,
                                   std::int64_t batches_per_epoch) {
  const auto left = batches_per_epoch - first;
  return {std::min(accumulation, left), left <= accumulation};
}

/// How many batches of a loader may be under way to a GPU at once, where each takes so many bytes: until it is copied
/// its memory, which is pinned, is given to no other.
constexpr std::int64_t most_batches_under_way(std::int64_t bytes_of_batch) {
  constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;
  return std::max<std::int64_t>(1, kMostBytes / std::max<std::int64_t>(1, bytes_of_batch));
}

}  // namespace adaact
