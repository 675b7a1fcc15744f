#pragma once

// What the update of one parameter needs, whatever the algorithm.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kernels/memory_layout.h"
#include "kernels/sum_dtype.h"

namespace adaact {

/// Throws, with both shapes, where a gradient is not of its parameter's shape: tensor operations would take
/// one that broadcasts, and loops would read beyond its end.
inline void check_gradient_fits(const std::string& optimizer, const std::string& name,
                                const torch::Tensor& parameter) {
  const auto& gradient = parameter.grad();
  TORCH_CHECK(gradient.sizes() == parameter.sizes(), optimizer, ": the gradient of '", name,
              "' has shape ", gradient.sizes(), ", expected ", parameter.sizes());
  TORCH_CHECK(gradient.device() == parameter.device(), optimizer, ": the gradient of '", name,
              "' is on ", gradient.device(), ", expected ", parameter.device());
}

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

/// New values in the memory of the old ones, where they fit: an update that was recorded reads them there.
inline torch::Tensor in_place_of(const torch::Tensor& old, const torch::Tensor& next) {
  if (!next.defined() || !old.defined() || next.is_same(old)) return next;
  const bool fits = next.sizes() == old.sizes() && next.strides() == old.strides() &&
                    next.scalar_type() == old.scalar_type() && next.device() == old.device();
  return fits ? old.copy_(next) : next;
}

/// Where a tensor lies; null where there is none.
inline const void* memory_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

/// State of the parameter's shape: zeros before its first use.
inline void prepare_buffer(torch::Tensor& buffer, const torch::Tensor& parameter) {
  if (buffer.defined()) {
    buffer = following(buffer, parameter).contiguous();  // on a GPU it may be laid out as θ is
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

inline bool are_on_one_device(const std::vector<torch::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& tensor) {
    return tensor.device() == tensors.front().device();
  });
}

/// State of the parameter's shape, laid out as it is: zeros before its first use.
inline torch::Tensor state_laid_out_as(const torch::Tensor& parameter, const torch::Tensor& state,
                                       torch::ScalarType dtype) {
  if (state.defined()) return laid_out_as(parameter, state, dtype);
  return torch::empty_strided(parameter.sizes(), parameter.strides(),
                              parameter.options().dtype(dtype).requires_grad(false))
      .zero_();
}
inline torch::Tensor state_laid_out_as(const torch::Tensor& parameter, const torch::Tensor& state) {
  return state_laid_out_as(parameter, state, sum_dtype(parameter));
}

}  // namespace adaact
