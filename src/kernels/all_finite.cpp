#include "kernels/all_finite.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include <ATen/Parallel.h>

#include "kernels/cpu_dispatch.h"

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

std::optional<std::size_t> first_non_finite(const std::vector<torch::Tensor>& tensors) {
  const auto found = std::find_if_not(tensors.begin(), tensors.end(), all_finite);
  if (found == tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors.begin());
}

}  // namespace adaact
