#include "train/bench/memory_meter.h"

#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include "kernels/gpu.h"

namespace adaact {

/// LibTorch's allocators report here, as they do to its profiler.
class MemoryMeter::Reports : public c10::MemoryReportingInfoBase {
 public:
#if TORCH_VERSION_MAJOR >= 2
  using Total = std::size_t;
#else
  using Total = std::int64_t;
#endif

  explicit Reports(torch::Device device) : type_(device.type()) {}

  void reportMemoryUsage(void* /*pointer*/, std::int64_t size, Total /*allocated*/,
                         Total /*reserved*/, torch::Device device) override {
    if (device.type() != type_) return;
    const auto now = in_use_ += size;
    auto seen = peak_.load();
    while (now > seen && !peak_.compare_exchange_weak(seen, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t peak() const { return peak_; }
  void restart_peak() { peak_ = in_use_.load(); }

 private:
  const torch::DeviceType type_;
  std::atomic<std::int64_t> in_use_{0};
  std::atomic<std::int64_t> peak_{0};
};

MemoryMeter::MemoryMeter(torch::Device device) : device_(device) {
  if (device_.is_cuda()) {
    // Blocks left over from others would be handed out, and counted, where smaller ones would do.
    give_back_unused_gpu_memory();
    at_the_beginning_ = gpu_memory(device_).in_use;
    restart_gpu_peak(device_);
  } else {
    reports_ = std::make_shared<Reports>(device_);
    reporting_.emplace(c10::DebugInfoKind::PROFILER_STATE, reports_);
  }
}

std::int64_t MemoryMeter::peak_bytes() const {
  return reports_ ? reports_->peak() : gpu_memory(device_).peak - at_the_beginning_;
}

void MemoryMeter::restart_peak() {
  reports_ ? reports_->restart_peak() : restart_gpu_peak(device_);
}

}  // namespace adaact
