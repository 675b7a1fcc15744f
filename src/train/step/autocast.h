#pragma once

#include <adaact/models/model.h>
#include <torch/types.h>

#include "kernels/autocast_setting.h"

namespace adaact {

/// bfloat16 autocast on a device while it lives, if enabled. What was set before is put back.
class AutocastScope {
 public:
  AutocastScope(torch::Device device, bool enabled)
      : type_(device.type()), enabled_(enabled), before_(autocast_setting(type_)) {
    if (!enabled_) return;
    at::autocast::increment_nesting();
    set_autocast(type_, {true, at::kBFloat16});
  }
  ~AutocastScope() {
    if (!enabled_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set_autocast(type_, before_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType type_;
  bool enabled_;
  AutocastSetting before_;
};

/// Logits in the dtype that the last layer computed in.
torch::Tensor forward_as_computed(Model& model, const torch::Tensor& images, bool bf16);

/// Logits in float32, whatever the layers computed in.
inline torch::Tensor forward_with_autocast(Model& model, const torch::Tensor& images, bool bf16) {
  return forward_as_computed(model, images, bf16).to(torch::kFloat32);
}

}  // namespace adaact
