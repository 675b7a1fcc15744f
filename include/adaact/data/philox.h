#pragma once

// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011): a keyed bijection of 128-bit counters. There is no state
// to carry along, so any thread of any device finds the same numbers under the same counter.

#include <cstdint>

#if defined(__CUDACC__)
#define ADAACT_HOST_DEVICE __host__ __device__
#else
#define ADAACT_HOST_DEVICE
#endif

namespace adaact {

/// Four 32-bit words: a counter on the way in, random numbers on the way out.
struct PhiloxBlock {
  std::uint32_t words[4];
};

struct PhiloxKey {
  std::uint32_t words[2];
};

ADAACT_HOST_DEVICE inline PhiloxBlock philox_round(const PhiloxBlock& x, const PhiloxKey& key) {
  const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * x.words[0];
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * x.words[2];
  return {{static_cast<std::uint32_t>(product1 >> 32) ^ x.words[1] ^ key.words[0],
           static_cast<std::uint32_t>(product1),
           static_cast<std::uint32_t>(product0 >> 32) ^ x.words[3] ^ key.words[1],
           static_cast<std::uint32_t>(product0)}};
}

ADAACT_HOST_DEVICE inline PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key.words[0] += 0x9E3779B9U;  // the golden ratio
    key.words[1] += 0xBB67AE85U;  // √3 - 1
  }
  return counter;
}

}  // namespace adaact
