#pragma once

#include <cstdint>
#include <vector>

namespace adaact {

/// The order in which an epoch visits its samples: a permutation of 0 … size-1 that depends on
/// nothing but the arguments. Samples are sorted by (random 64-bit key, index), which any device
/// with a sort can repeat.
std::vector<std::int64_t> shuffled_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

}  // namespace adaact
