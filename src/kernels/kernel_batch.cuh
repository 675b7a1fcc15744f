#pragma once

// Descriptors of many tensors as one kernel's parameters: no copy to the device, so nothing has to
// outlive the call and a CUDA graph keeps the values.

#include <cstdint>
#include <limits>
#include <vector>

#include <cuda_runtime_api.h>

namespace adaact {

/// Items of one launch. Item i owns the blocks from first_block[i] to the next item's first.
template <typename Item, int Capacity>
struct KernelBatch {
  int count;
  int first_block[Capacity];
  Item items[Capacity];
};

/// Parameters that every CUDA version takes, and those that versions from 12.1 take. A launch costs
/// more with large parameters even where few are used, so there are two sizes. The kernels take a
/// pointer or two besides.
constexpr int kSmallBatchBytes = 4096 - 64;
constexpr int kLargeBatchBytes = CUDART_VERSION >= 12010 ? 32764 - 64 : kSmallBatchBytes;

template <typename Item>
constexpr int batch_capacity(int bytes) {
  return (bytes - static_cast<int>(alignof(Item))) / static_cast<int>(sizeof(Item) + sizeof(int));
}

/// The item that owns a block.
template <typename Item, int Capacity>
__device__ inline int owner_of(const KernelBatch<Item, Capacity>& batch, int block) {
  int low = 0;
  int high = batch.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (batch.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Calls launch(batch, blocks) for as many items from `begin` on as fit. Returns how many.
template <int Capacity, typename Item, typename Launch>
std::size_t launch_one_batch(const std::vector<Item>& items, std::size_t begin,
                             const Launch& launch) {
  KernelBatch<Item, Capacity> batch{};
  std::int64_t blocks = 0;
  for (auto at = begin; at < items.size() && batch.count < Capacity; ++at) {
    if (blocks + items[at].blocks > std::numeric_limits<int>::max()) break;
    batch.first_block[batch.count] = static_cast<int>(blocks);
    batch.items[batch.count] = items[at];
    ++batch.count;
    blocks += items[at].blocks;
  }
  launch(batch, static_cast<unsigned>(blocks));
  return static_cast<std::size_t>(batch.count);
}

/// Calls launch(batch, blocks) until every item was in a batch. An item has 1 to 2³¹ − 1 `blocks`.
template <typename Item, typename Launch>
void launch_in_batches(const std::vector<Item>& items, const Launch& launch) {
  constexpr int kSmall = batch_capacity<Item>(kSmallBatchBytes);
  constexpr int kLarge = batch_capacity<Item>(kLargeBatchBytes);
  for (std::size_t begin = 0; begin < items.size();) {
    begin += items.size() - begin <= kSmall ? launch_one_batch<kSmall>(items, begin, launch)
                                            : launch_one_batch<kLarge>(items, begin, launch);
  }
}

}  // namespace adaact
