#include "data/batch_buffers.h"

#include <utility>

#include <c10/core/InferenceMode.h>

namespace adaact {
namespace {

bool is_shared(const torch::Tensor& tensor) { return tensor.storage().use_count() > 1; }

bool is_in_use(const BatchBuffer& buffer) {
  return is_shared(buffer.images) || is_shared(buffer.labels) || is_shared(buffer.samples) ||
         is_shared(buffer.partner_labels);
}

}  // namespace

BatchBuffers::BatchBuffers(const ImageShape& shape, std::int64_t batch_size,
                           torch::ScalarType dtype, ImageLayout layout, bool pin_memory,
                           std::int64_t most_lent)
    : shape_(shape),
      batch_size_(batch_size),
      dtype_(dtype),
      layout_(layout),
      pin_memory_(pin_memory),
      most_lent_(static_cast<std::size_t>(most_lent)) {}

BatchBuffer BatchBuffers::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      auto buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
  }
  // The first user may evaluate in inference mode, the next one train with the same memory.
  const c10::InferenceMode normal_mode(false);
  const auto options = torch::TensorOptions().pinned_memory(pin_memory_);
  const auto numbers = [&] { return torch::empty({batch_size_}, options.dtype(torch::kLong)); };
  const auto format = layout_ == ImageLayout::Planes ? torch::MemoryFormat::Contiguous
                                                     : torch::MemoryFormat::ChannelsLast;
  return {torch::empty({batch_size_, shape_.channels, shape_.height, shape_.width},
                       options.dtype(dtype_), format),
          numbers(), numbers(), numbers()};
}

void BatchBuffers::lend(const BatchBuffer& buffer) {
  // A copy to the GPU may still read pinned memory after the last tensor of it is gone. LibTorch's
  // allocator knows when it has ended and reuses the memory then.
  if (pin_memory_) return;
  std::vector<BatchBuffer> in_use;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& each : lent_) (is_in_use(each) ? in_use : free_).push_back(std::move(each));
  }
  // Someone who keeps so many batches keeps them for good: the oldest is no longer waited for.
  if (in_use.size() == most_lent_) in_use.erase(in_use.begin());
  in_use.push_back(buffer);
  lent_ = std::move(in_use);
}

}  // namespace adaact
