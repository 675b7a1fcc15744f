#include "train/bench/memory_meter.h"

#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>
#ifdef ADAACT_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace adaact {
namespace {

/// LibTorch's allocators report here, as they do to its profiler.
class Reports : public c10::MemoryReportingInfoBase {
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

}  // namespace

class MemoryMeter::Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t peak() const = 0;
  virtual void restart_peak() = 0;
};

class MemoryMeter::ReportedTensors : public Source {
 public:
  explicit ReportedTensors(torch::Device device)
      : reports_(std::make_shared<Reports>(device)),
        scope_(c10::DebugInfoKind::PROFILER_STATE, reports_) {}

  std::int64_t peak() const override { return reports_->peak(); }
  void restart_peak() override { reports_->restart_peak(); }

 private:
  std::shared_ptr<Reports> reports_;
  c10::DebugInfoGuard scope_;
};

#ifdef ADAACT_WITH_CUDA
/// Its own statistics: what backward passes give back in LibTorch's threads is in them for certain.
class MemoryMeter::GpuAllocator : public Source {
 public:
  explicit GpuAllocator(torch::Device device)
      : device_(device.has_index() ? device.index() : c10::cuda::current_device()),
        at_the_beginning_(allocated().current) {
    restart_peak();
  }

  std::int64_t peak() const override { return allocated().peak - at_the_beginning_; }
  void restart_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(device_); }

 private:
  struct Allocated {
    std::int64_t current;
    std::int64_t peak;
  };
  Allocated allocated() const {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_);
    const auto& bytes = stats.allocated_bytes[0];  // large and small blocks together
    return {bytes.current, bytes.peak};
  }

  c10::DeviceIndex device_;
  std::int64_t at_the_beginning_;
};
#endif

MemoryMeter::MemoryMeter(torch::Device device) {
#ifdef ADAACT_WITH_CUDA
  if (device.is_cuda()) source_ = std::make_unique<GpuAllocator>(device);
#endif
  if (!source_) source_ = std::make_unique<ReportedTensors>(device);
}

MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::peak_bytes() const { return source_->peak(); }
void MemoryMeter::restart_peak() { source_->restart_peak(); }

}  // namespace adaact
