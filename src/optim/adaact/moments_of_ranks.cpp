#include "optim/adaact/moments_of_ranks.h"

#include <set>
#include <tuple>
#include <utility>

namespace adaact {
namespace {

/// What an entry says of some rows of a weight. A bias has entries of its own, because ranks may have seen the rows
/// with different ones; they follow those of the moments in the order of keys.
enum class SaysOfRows : std::int64_t { Moment, NamedBias };

using MomentKey = std::vector<std::int64_t>;

MomentKey key_of(const PendingMoment& observed, SaysOfRows what, std::size_t bias = 0) {
  return {static_cast<std::int64_t>(observed.weight), observed.row_begin, observed.row_end,
          static_cast<std::int64_t>(what), static_cast<std::int64_t>(bias)};
}

std::vector<SharedSums::Entry> entries_of(const std::vector<PendingMoment>& moments) {
  std::vector<SharedSums::Entry> entries;
  std::set<MomentKey> named;
  for (const auto& observed : moments) {
    entries.push_back(
        {key_of(observed, SaysOfRows::Moment), observed.moment.sum, observed.moment.count});
    for (const auto bias : observed.biases) {
      auto key = key_of(observed, SaysOfRows::NamedBias, bias);
      // Rows that were used in two geometries may have the same bias in both.
      if (named.insert(key).second) entries.push_back({std::move(key), torch::Tensor(), 0});
    }
  }
  return entries;
}

std::vector<PendingMoment> moments_from(const std::vector<SharedSums::Entry>& entries) {
  std::vector<PendingMoment> moments;
  for (const auto& entry : entries) {
    if (entry.key[3] == static_cast<std::int64_t>(SaysOfRows::NamedBias)) {
      moments.back().biases.push_back(static_cast<std::size_t>(entry.key[4]));
      continue;
    }
    moments.push_back({static_cast<std::size_t>(entry.key[0]),
                       entry.key[1],
                       entry.key[2],
                       {entry.sum, entry.count},
                       {}});
  }
  return moments;
}

}  // namespace

std::vector<PendingMoment> moments_of_ranks(
    SharedSums& ranks, const std::function<std::vector<PendingMoment>()>& own) {
  return moments_from(ranks.add_up([&] { return entries_of(own()); }));
}

}  // namespace adaact
