#include <adaact/data/shuffle.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <adaact/data/random_stream.h>
#include <c10/util/Exception.h>

namespace adaact {

std::vector<std::int64_t> shuffled_order(std::int64_t size, std::uint64_t seed,
                                         std::int64_t epoch) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::uint32_t>::max();
  TORCH_CHECK(size >= 0 && size <= kLargest, "shuffled_order: size is ", size,
              ", expected 0 to 2^32 - 1");
  TORCH_CHECK(epoch >= 0 && epoch <= kLargest, "shuffled_order: epoch is ", epoch,
              ", expected 0 to 2^32 - 1");
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keyed(static_cast<std::size_t>(size));
  for (std::uint32_t i = 0; i < keyed.size(); ++i) {
    const auto random =
        RandomStream(seed, RandomPurpose::Shuffle, static_cast<std::uint32_t>(epoch), i).block(0);
    keyed[i] = {(std::uint64_t{random.words[1]} << 32) | random.words[0], i};
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::int64_t> order(keyed.size());
  for (std::size_t i = 0; i < keyed.size(); ++i) order[i] = keyed[i].second;
  return order;
}

}  // namespace adaact
