#pragma once

// Autocast under names that older and newer LibTorch spell differently.

#include <ATen/autocast_mode.h>
#include <adaact/models/model.h>
#include <torch/types.h>
#include <torch/version.h>

namespace adaact {

/// bfloat16 autocast on a device while it lives, if enabled. What was set before is put back.
class AutocastScope {
 public:
  AutocastScope(torch::Device device, bool enabled)
      : type_(device.type()), enabled_(enabled), before_(current()) {
    if (!enabled_) return;
    at::autocast::increment_nesting();
    set({true, at::kBFloat16});
  }
  ~AutocastScope() {
    if (!enabled_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(before_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  struct Setting {
    bool enabled = false;
    at::ScalarType dtype = at::kBFloat16;
  };

// Functions that take the kind of device came with 2.4.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  Setting current() const {
    return {at::autocast::is_autocast_enabled(type_), at::autocast::get_autocast_dtype(type_)};
  }
  void set(const Setting& setting) const {
    at::autocast::set_autocast_enabled(type_, setting.enabled);
    at::autocast::set_autocast_dtype(type_, setting.dtype);
  }
#else
  Setting current() const {
    if (type_ == at::kCUDA) {
      return {at::autocast::is_enabled(), at::autocast::get_autocast_gpu_dtype()};
    }
    return {at::autocast::is_cpu_enabled(), at::autocast::get_autocast_cpu_dtype()};
  }
  void set(const Setting& setting) const {
    if (type_ == at::kCUDA) {
      at::autocast::set_enabled(setting.enabled);
      at::autocast::set_autocast_gpu_dtype(setting.dtype);
    } else {
      at::autocast::set_cpu_enabled(setting.enabled);
      at::autocast::set_autocast_cpu_dtype(setting.dtype);
    }
  }
#endif

  at::DeviceType type_;
  bool enabled_;
  Setting before_;
};

/// Logits in float32, whatever the layers computed in.
inline torch::Tensor forward_with_autocast(Model& model, const torch::Tensor& images, bool bf16) {
  const AutocastScope autocast(images.device(), bf16);
  return model.forward(images).to(torch::kFloat32);
}

}  // namespace adaact
