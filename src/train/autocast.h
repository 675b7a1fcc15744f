#pragma once

// Autocast under names that LibTorch 1.13 and 2.x spell differently.

#include <ATen/autocast_mode.h>
#include <adaact/models/model.h>
#include <torch/types.h>
#include <torch/version.h>

namespace adaact {

/// bfloat16 autocast on a device while it lives, if enabled.
class AutocastScope {
 public:
  AutocastScope(torch::Device device, bool enabled) : device_(device), enabled_(enabled) {
    if (!enabled_) return;
    at::autocast::increment_nesting();
    set(true);
  }
  ~AutocastScope() {
    if (!enabled_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(false);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  void set(bool on) const {
#if TORCH_VERSION_MAJOR >= 2
    at::autocast::set_autocast_enabled(device_.type(), on);
    at::autocast::set_autocast_dtype(device_.type(), at::kBFloat16);
#else
    if (device_.is_cuda()) {
      at::autocast::set_enabled(on);
      at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    } else {
      at::autocast::set_cpu_enabled(on);
      at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    }
#endif
  }

  torch::Device device_;
  bool enabled_;
};

/// Logits in float32, whatever the layers computed in.
inline torch::Tensor forward_with_autocast(Model& model, const torch::Tensor& images, bool bf16) {
  const AutocastScope autocast(images.device(), bf16);
  return model.forward(images).to(torch::kFloat32);
}

}  // namespace adaact
