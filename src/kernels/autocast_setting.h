#pragma once

// Autocast under names that older and newer LibTorch spell differently.

#include <optional>

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace adaact {

struct AutocastSetting {
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;
};

// Functions that take the kind of device came with 2.4.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
inline AutocastSetting autocast_setting(at::DeviceType type) {
  return {at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)};
}
inline void set_autocast(at::DeviceType type, const AutocastSetting& setting) {
  at::autocast::set_autocast_enabled(type, setting.enabled);
  at::autocast::set_autocast_dtype(type, setting.dtype);
}
#else
inline AutocastSetting autocast_setting(at::DeviceType type) {
  if (type == at::kCUDA) {
    return {at::autocast::is_enabled(), at::autocast::get_autocast_gpu_dtype()};
  }
  return {at::autocast::is_cpu_enabled(), at::autocast::get_autocast_cpu_dtype()};
}
inline void set_autocast(at::DeviceType type, const AutocastSetting& setting) {
  if (type == at::kCUDA) {
    at::autocast::set_enabled(setting.enabled);
    at::autocast::set_autocast_gpu_dtype(setting.dtype);
  } else {
    at::autocast::set_cpu_enabled(setting.enabled);
    at::autocast::set_autocast_cpu_dtype(setting.dtype);
  }
}
#endif

/// The dtype that layers compute in, where autocast decides it.
inline std::optional<at::ScalarType> autocast_dtype(at::DeviceType type) {
  const auto setting = autocast_setting(type);
  return setting.enabled ? std::optional(setting.dtype) : std::nullopt;
}

}  // namespace adaact
