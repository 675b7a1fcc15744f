#pragma once

// What the tests need from LibTorch.

#include <string>
#include <vector>

#include <torch/torch.h>

#include "io/warning_listener.h"
#include "train/step/autocast.h"

namespace adaact::testing {

/// bfloat16 autocast on the CPU while it lives.
class CpuAutocast : public AutocastScope {
 public:
  CpuAutocast() : AutocastScope(torch::kCPU, /*enabled=*/true) {}
};

/// Collects what LibTorch would print as warnings while it lives.
class WarningCapture {
 public:
  std::vector<std::string> messages;

 private:
  WarningListener listener_{[this](const std::string& message) { messages.push_back(message); }};
};

}  // namespace adaact::testing
