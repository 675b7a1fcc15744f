#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <adaact/data/augment.h>
#include <torch/types.h>

namespace adaact {

/// The memory of one batch.
struct BatchBuffer {
  torch::Tensor images;          // (B, C, H, W)
  torch::Tensor labels;          // (B) kLong
  torch::Tensor samples;         // (B) kLong
  torch::Tensor partner_labels;  // (B) kLong
};

/// Memory for batches that goes round, so that an epoch of any length asks the system for no more
/// than its first batches did.
class BatchBuffers {
 public:
  BatchBuffers(const ImageShape& shape, std::int64_t batch_size, torch::ScalarType dtype,
               ImageLayout layout, bool pin_memory, std::int64_t most_lent);

  /// A buffer that nobody else has. From any thread.
  BatchBuffer take();

  /// Remembers a buffer that now goes to the user, and takes back those that no tensor of theirs
  /// shares any more. From the user's thread, which so orders its reads before the next writes.
  void lend(const BatchBuffer& buffer);

 private:
  const ImageShape shape_;
  const std::int64_t batch_size_;
  const torch::ScalarType dtype_;
  const ImageLayout layout_;
  const bool pin_memory_;
  const std::size_t most_lent_;
  std::vector<BatchBuffer> lent_;  // oldest first
  std::mutex mutex_;
  std::vector<BatchBuffer> free_;
};

}  // namespace adaact
