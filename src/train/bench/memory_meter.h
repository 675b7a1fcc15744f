#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/types.h>

namespace adaact {

/// Counts memory that is taken and given back on a device while it lives. On a GPU that is what LibTorch's
/// allocator hands out to the process, libraries' scratch memory included; elsewhere the tensors of this
/// thread and of the backward passes it starts. One at a time for each GPU.
class MemoryMeter {
 public:
  explicit MemoryMeter(torch::Device device);

  /// The most in use at any moment, beyond what was in use at the beginning, in bytes.
  std::int64_t peak_bytes() const;
  /// Forgets the moments before this one. What was taken and not given back is still in use.
  void restart_peak();

 private:
  class Reports;

  torch::Device device_;
  // On a GPU its allocator is asked, which knows for certain what backward passes give back in LibTorch's
  // threads.
  std::int64_t at_the_beginning_ = 0;
  std::shared_ptr<Reports> reports_;  // null on a GPU
  std::optional<c10::DebugInfoGuard> reporting_;
};

}  // namespace adaact
