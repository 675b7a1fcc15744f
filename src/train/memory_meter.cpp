#include "train/memory_meter.h"

#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

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

 private:
  const torch::DeviceType type_;
  std::atomic<std::int64_t> in_use_{0};
  std::atomic<std::int64_t> peak_{0};
};

class MemoryMeter::Scope {
 public:
  explicit Scope(const std::shared_ptr<Reports>& reports)
      : guard_(c10::DebugInfoKind::PROFILER_STATE, reports) {}

 private:
  c10::DebugInfoGuard guard_;
};

MemoryMeter::MemoryMeter(torch::Device device)
    : reports_(std::make_shared<Reports>(device)), scope_(std::make_unique<Scope>(reports_)) {}

MemoryMeter::~MemoryMeter() = default;

std::int64_t MemoryMeter::peak_bytes() const { return reports_->peak(); }

}  // namespace adaact
