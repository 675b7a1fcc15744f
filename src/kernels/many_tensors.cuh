#pragma once

// One launch for many tensors: a list of items, each with blocks of its own, is a parameter of the
// kernel. Nothing is copied to the device beforehand, so nothing has to outlive the call, and a
// CUDA graph keeps the values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <cuda_runtime_api.h>

namespace adaact::many_tensors {

/// What the parameters of a kernel may take, and of it what a kernel takes besides the list.
constexpr std::size_t kParameterBytes = CUDART_VERSION >= 12010 ? 32764 : 4096;
constexpr std::size_t kOtherParameterBytes = 256;

/// The items of one launch. Item i owns the blocks from first_block[i] to before first_block[i + 1].
template <typename Item, int kCapacity>
struct ItemList {
  Item items[kCapacity];
  std::uint32_t first_block[kCapacity + 1];
  std::int32_t count;
};

/// The most items that a list holds.
template <typename Item>
constexpr int kMostItems = std::min<int>(512, (kParameterBytes - kOtherParameterBytes) /
                                                  (sizeof(Item) + sizeof(std::uint32_t)));

/// The item that owns a block.
template <typename List>
__device__ inline int owner_of(const List& list, std::uint32_t block) {
  int low = 0;
  int high = list.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Calls launch(list, blocks) for as many items from `begin` on as fit. Returns how many.
template <int kCapacity, typename Item, typename BlocksOf, typename Launch>
std::size_t launch_one_list(const std::vector<Item>& items, std::size_t begin,
                            const BlocksOf& blocks_of, const Launch& launch) {
  ItemList<Item, kCapacity> list{};
  std::int64_t blocks = 0;
  for (auto at = begin; at < items.size() && list.count < kCapacity; ++at) {
    const std::int64_t more = blocks_of(items[at]);
    if (blocks + more > std::numeric_limits<std::int32_t>::max()) break;  // the limit of a grid
    list.items[list.count] = items[at];
    list.first_block[list.count] = static_cast<std::uint32_t>(blocks);
    ++list.count;
    blocks += more;
  }
  list.first_block[list.count] = static_cast<std::uint32_t>(blocks);
  launch(list, static_cast<unsigned>(blocks));
  return static_cast<std::size_t>(list.count);
}

/// Calls launch(list, blocks) until every item was in a list, in their order. An item has
/// blocks_of(item) blocks: 1 to 2³¹ − 1.
///
/// A launch costs the host time in proportion to its parameters' size, used or not. So there are two
/// sizes of lists: for kFew items, and for as many as a kernel can be given.
template <int kFew, typename Item, typename BlocksOf, typename Launch>
void launch_lists(const std::vector<Item>& items, const BlocksOf& blocks_of, const Launch& launch) {
  constexpr int kMost = kMostItems<Item>;
  constexpr int kSmall = std::min(kFew, kMost);
  for (std::size_t begin = 0; begin < items.size();) {
    begin += items.size() - begin <= kSmall
                 ? launch_one_list<kSmall>(items, begin, blocks_of, launch)
                 : launch_one_list<kMost>(items, begin, blocks_of, launch);
  }
}

}  // namespace adaact::many_tensors
