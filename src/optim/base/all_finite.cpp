#include "optim/base/all_finite.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include <ATen/Parallel.h>

#include "kernels/cpu_dispatch.h"
#include "optim/device/device_step.h"

namespace adaact {
namespace {

/// Checked by a thread at least: reading alone is fast.
constexpr std::int64_t kCheckedElements = 131072;

template <typename Scalar, typename Bits>
struct AnyNonFinite {
  /// An all-ones exponent marks an infinity or a NaN.
  static ADAACT_LOOP_BODY void run(const Scalar* x, std::int64_t n, Bits exponent, Bits* found) {
    Bits any = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      Bits bits = 0;
      std::memcpy(&bits, x + i, sizeof(bits));
      any |= static_cast<Bits>((bits & exponent) == exponent);
    }
    *found |= any;
  }
};

template <typename Scalar, typename Bits>
bool all_finite_cpu(const torch::Tensor& tensor, Bits exponent) {
  const auto* data = tensor.data_ptr<Scalar>();
  std::atomic<Bits> found{0};
  at::parallel_for(0, tensor.numel(), kCheckedElements, [&](std::int64_t begin, std::int64_t end) {
    Bits any = 0;
    run_vectorized<AnyNonFinite<Scalar, Bits>>(data + begin, end - begin, exponent, &any);
    if (any != 0) found = 1;
  });
  return found == 0;
}

}  // namespace

bool all_finite(const torch::Tensor& tensor) {
  if (tensor.device().is_cpu() && tensor.is_contiguous()) {
    if (tensor.scalar_type() == torch::kFloat32) {
      return all_finite_cpu<float, std::uint32_t>(tensor, 0x7F800000U);
    }
    if (tensor.scalar_type() == torch::kFloat64) {
      return all_finite_cpu<double, std::uint64_t>(tensor, 0x7FF0000000000000ULL);
    }
  }
  return torch::isfinite(tensor).all().item<bool>();
}

std::size_t first_non_finite(const std::vector<torch::Tensor>& tensors) {
#ifdef ADAACT_WITH_CUDA
  const auto on_one_gpu = [&](const torch::Tensor& tensor) {
    return tensor.is_cuda() && tensor.device() == tensors[0].device() && tensor.is_floating_point();
  };
  if (!tensors.empty() && std::all_of(tensors.begin(), tensors.end(), on_one_gpu)) {
    const auto check = make_device_step(/*groups=*/1, tensors[0].device());
    check_finite_cuda(tensors, /*first_index=*/0, check);
    const auto culprit = check.culprit.item<std::int64_t>();
    return culprit == kNoCulprit ? tensors.size() : static_cast<std::size_t>(culprit);
  }
#endif
  const auto found = std::find_if_not(tensors.begin(), tensors.end(), all_finite);
  return static_cast<std::size_t>(found - tensors.begin());
}

std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model) {
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto& gradient = parameter.grad();
      if (!parameter.requires_grad() || !gradient.defined()) continue;
      gradients.push_back(gradient.is_sparse() ? gradient._values() : gradient);
      parameters.push_back(parameter);
    }
  }
  const auto culprit = first_non_finite(gradients);
  if (culprit == gradients.size()) return {};
  const auto index = model.find(parameters[culprit]);
  const auto name = index == LayerMap::kNotFound ? "a parameter" : model.parameters()[index].name;
  return "the gradient of '" + name + "' is not finite";
}

}  // namespace adaact
