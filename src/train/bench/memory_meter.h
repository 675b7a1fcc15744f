#pragma once

#include <cstdint>
#include <memory>

#include <torch/types.h>

namespace adaact {

/// Counts memory that is taken and given back on a device while it lives. On a GPU that is what LibTorch's
/// allocator hands out to the process, libraries' scratch memory included; elsewhere the tensors of this
/// thread and of the backward passes it starts. One at a time for each GPU.
class MemoryMeter {
 public:
  explicit MemoryMeter(torch::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// The most in use at any moment, beyond what was in use at the beginning, in bytes.
  std::int64_t peak_bytes() const;
  /// Forgets the moments before this one. What was taken and not given back is still in use.
  void restart_peak();

 private:
  class Source;
  class ReportedTensors;
  class GpuAllocator;
  std::unique_ptr<Source> source_;
};

}  // namespace adaact
