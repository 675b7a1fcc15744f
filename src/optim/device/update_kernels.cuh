#pragma once

// What the update kernels of all optimizers share: how they see a step under way, and which
// parameters they can take, in which order. How they are launched is in kernels/tensor_chunks.cuh.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <c10/cuda/CUDAGuard.h>
#include <torch/types.h>

#include "kernels/memory_layout.h"
#include "optim/device/device_step.h"

namespace adaact::update_kernels {

/// What a kernel reads of a DeviceStep; nothing in an eager step.
struct StepView {
  explicit StepView(const DeviceStep* step) {
    if (step == nullptr) return;
    lr = step->lr.data_ptr<double>();
    accepted = step->accepted.data_ptr<std::int64_t>();
    bad = step->bad.data_ptr<std::int32_t>();
  }

  __device__ bool is_left_out() const { return bad != nullptr && *bad != 0; }
  __device__ double rate(double eager, int group) const {
    return lr != nullptr ? lr[group] : eager;
  }
  /// t of the update under way, given the updates before the host's count was read.
  __device__ std::int64_t number_after(std::int64_t before) const {
    return before + 1 + (accepted != nullptr ? *accepted : 0);
  }

  const double* lr = nullptr;
  const std::int64_t* accepted = nullptr;
  const std::int32_t* bad = nullptr;
};

/// 1 − βᵗ
inline __device__ double bias_correction_on_gpu(double beta, std::int64_t t) {
  return 1.0 - pow(beta, static_cast<double>(t));
}

/// True if both fill their memory without gaps and have their elements there in the same order.
inline bool same_order(const torch::Tensor& one, const torch::Tensor& other) {
  if (one.sizes() != other.sizes() || !one.is_non_overlapping_and_dense() ||
      !other.is_non_overlapping_and_dense()) {
    return false;
  }
  return are_laid_out_alike(one, other);
}

/// True if the tensor is strided memory on θ's device, in θ's order.
inline bool goes_with(const torch::Tensor& theta, const torch::Tensor& tensor,
                      torch::ScalarType dtype) {
  return tensor.defined() && tensor.layout() == torch::kStrided &&
         tensor.device() == theta.device() && tensor.scalar_type() == dtype &&
         same_order(theta, tensor);
}

/// Parameters of one dtype and device, in the order of the list.
template <typename Parameter>
struct Kind {
  torch::Device device;
  torch::ScalarType dtype;
  std::vector<const Parameter*> parameters;
};

/// Parameters without elements are left out.
template <typename Parameter>
std::vector<Kind<Parameter>> by_kind(const std::vector<Parameter>& parameters) {
  std::vector<Kind<Parameter>> kinds;
  for (const auto& parameter : parameters) {
    const auto& theta = parameter.tensors.theta;
    if (theta.numel() == 0) continue;
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) {
      return each.device == theta.device() && each.dtype == theta.scalar_type();
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, {theta.device(), theta.scalar_type(), {}});
    }
    kind->parameters.push_back(&parameter);
  }
  return kinds;
}

/// Whatever holds the old values for a backward pass must know that they are gone.
template <typename Parameter>
void bump_versions(const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    parameter.tensors.theta.unsafeGetTensorImpl()->bump_version();
  }
}

/// Calls update(kind, norm) for each kind with its device as the current one. The norm of all gradients, as
/// global_norm_cuda gives it, is null where no parameter has a max_grad_norm.
template <typename Parameter, typename Update>
void update_by_kind(const std::vector<Parameter>& parameters, const torch::Tensor& gradient_norm,
                    const Update& update) {
  const auto clips = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return std::isfinite(parameter.max_grad_norm);
  });
  TORCH_CHECK(!clips || gradient_norm.defined(), "a max_grad_norm needs the norm of all gradients");
  for (const auto& kind : by_kind(parameters)) {
    const c10::cuda::CUDAGuard device(kind.device);
    const auto norm = clips ? gradient_norm.to(kind.device) : torch::Tensor();
    update(kind, clips ? norm.template data_ptr<double>() : nullptr);
  }
  bump_versions(parameters);
}

}  // namespace adaact::update_kernels
