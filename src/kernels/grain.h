#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/Parallel.h>

namespace adaact {

/// Elements below which a second thread costs more than it brings.
inline constexpr std::int64_t kGrain = 32768;

/// Tasks below which a second thread costs more than it brings.
inline std::int64_t grain_for(std::int64_t elements_per_task) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements_per_task));
}

/// Runs a loop over parts of [0, count) on all threads.
template <typename Loop>
void parallel_chunks(std::int64_t count, Loop&& loop) {
  at::parallel_for(0, count, kGrain, loop);
}

}  // namespace adaact
