#pragma once

// What the tests need from LibTorch under names that 1.13 and 2.11 spell differently.

#include <string>
#include <vector>

#include <ATen/autocast_mode.h>
#include <c10/util/Exception.h>
#include <torch/torch.h>
#include <torch/version.h>

namespace adaact::testing {

/// bfloat16 autocast on the CPU while it lives.
class CpuAutocast {
 public:
  CpuAutocast() { set(true); }
  ~CpuAutocast() {
    at::autocast::clear_cache();
    set(false);
  }
  CpuAutocast(const CpuAutocast&) = delete;
  CpuAutocast& operator=(const CpuAutocast&) = delete;

 private:
  static void set(bool enabled) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
#else
    at::autocast::set_cpu_enabled(enabled);
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
#endif
  }
};

#if TORCH_VERSION_MAJOR >= 2
using WarningHandlerGuard = c10::WarningUtils::WarningHandlerGuard;
#else
using WarningHandlerGuard = c10::Warning::WarningHandlerGuard;
#endif

/// Collects what LibTorch would print as warnings while it lives.
class WarningCapture : public c10::WarningHandler {
 public:
#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning& warning) override { messages.push_back(warning.msg()); }
#else
  void process(const c10::SourceLocation& /*where*/, const std::string& message,
               const bool /*verbatim*/) override {
    messages.push_back(message);
  }
#endif
  std::vector<std::string> messages;

 private:
  WarningHandlerGuard guard_{this};
};

}  // namespace adaact::testing
