#include "ranks/mpi_buffers.h"

#include <algorithm>
#include <utility>

namespace adaact {
namespace {

/// As many bytes are kept for the next taker as two of the usual buckets of gradients have, and some more. A whole model,
/// which is broadcast once, has more, and is not kept.
constexpr std::size_t kMostFreeBytes = std::size_t{64} << 20;

}  // namespace

MpiBuffers::Buffer MpiBuffers::take(std::size_t bytes) {
  auto smallest = free_.end();
  for (auto buffer = free_.begin(); buffer != free_.end(); ++buffer) {
    if (buffer->bytes < bytes) continue;
    if (smallest == free_.end() || buffer->bytes < smallest->bytes) smallest = buffer;
  }
  if (smallest == free_.end()) {
    // std::make_unique would write zeros first, which would take as long as to fill the memory.
    return {std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes};
  }
  auto taken = std::move(*smallest);
  free_.erase(smallest);
  free_bytes_ -= taken.bytes;
  return taken;
}

void MpiBuffers::give_back(Buffer buffer) {
  if (free_bytes_ + buffer.bytes > kMostFreeBytes) return;
  free_bytes_ += buffer.bytes;
  free_.push_back(std::move(buffer));
}

}  // namespace adaact
