#pragma once

#include <cstdint>
#include <memory>

#include <torch/types.h>

namespace adaact {

/// Counts the tensor memory that this thread and the backward passes it starts take and give back on a
/// device, while it lives. Scratch memory of libraries that LibTorch calls is not tensor memory.
class MemoryMeter {
 public:
  explicit MemoryMeter(torch::Device device);
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  /// The most in use at any moment, beyond what was in use at the beginning, in bytes.
  std::int64_t peak_bytes() const;

 private:
  class Reports;
  class Scope;
  std::shared_ptr<Reports> reports_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace adaact
