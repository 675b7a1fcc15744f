#pragma once

// What the update of one parameter needs, whatever the algorithm.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "moments/sum_dtype.h"

namespace adaact {

/// 1 − βᵗ
inline double bias_correction(double beta, std::int64_t count) {
  return 1.0 - std::pow(beta, static_cast<double>(count));
}

/// A parameter as a contiguous (rows, columns) matrix. Written back by finish() where it had to be
/// copied because it is not contiguous (channels-last weights).
class MatrixView {
 public:
  explicit MatrixView(const torch::Tensor& parameter, std::int64_t rows = 1)
      : parameter_(parameter.detach()), matrix_(parameter_.contiguous().view({rows, -1})) {}

  const torch::Tensor& matrix() const { return matrix_; }
  void finish() {
    // The loop wrote past autograd, which must know: a graph that holds the old values is no longer
    // valid.
    parameter_.unsafeGetTensorImpl()->bump_version();
    if (!matrix_.is_alias_of(parameter_)) parameter_.copy_(matrix_.view(parameter_.sizes()));
  }

 private:
  torch::Tensor parameter_;
  torch::Tensor matrix_;
};

/// Moves state to where the parameter went with model->to(…).
inline torch::Tensor following(const torch::Tensor& state, const torch::Tensor& parameter) {
  return state.to(parameter.device(), sum_dtype(parameter));
}

/// State of the parameter's shape: zeros before its first use.
inline void prepare_buffer(torch::Tensor& buffer, const torch::Tensor& parameter) {
  if (buffer.defined()) {
    buffer = following(buffer, parameter);
  } else {
    buffer = torch::zeros(parameter.sizes(),
                          parameter.options().dtype(sum_dtype(parameter)).requires_grad(false));
  }
}

/// Contiguous, in the parameter's dtype: LibTorch 1.13 leaves a gradient behind in the old dtype when
/// its parameter moves.
inline torch::Tensor gradient_of(const torch::Tensor& parameter) {
  return parameter.grad().to(parameter.scalar_type()).contiguous();
}

inline torch::Tensor norm_of(const torch::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), /*keepdim=*/false,
                                sum_dtype(tensor));
}

/// The norm of all tensors together.
inline double global_norm(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return 0.0;
  std::vector<torch::Tensor> norms;
  norms.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    norms.push_back(norm_of(tensor).to(tensors[0].device(), torch::kFloat64));
  }
  return torch::stack(norms).norm().item<double>();
}

/// Runs a loop over parts of [0, count) on all threads.
template <typename Loop>
void parallel_chunks(std::int64_t count, Loop&& loop) {
  constexpr std::int64_t kGrain = 32768;
  at::parallel_for(0, count, kGrain, loop);
}

}  // namespace adaact
