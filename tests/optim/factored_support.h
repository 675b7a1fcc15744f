#pragma once

#include <limits>

#include <adaact/adaact.h>
#include <torch/torch.h>

namespace adaact::testing {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One step is exactly θ − v.
inline FoofOptions plain_foof() {
  return FoofOptions(1.0).momentum(0.0).weight_decay(0.0).covariance_period(1).inverse_period(1);
}
inline KfacOptions plain_kfac() {
  return KfacOptions(1.0)
      .momentum(0.0)
      .weight_decay(0.0)
      .kl_clip(kInfinity)
      .covariance_period(1)
      .inverse_period(1);
}

inline torch::Tensor with_ones(const torch::Tensor& rows) {
  return torch::cat({rows, torch::ones({rows.size(0), 1}, rows.options())}, 1);
}

inline torch::Tensor identity(int64_t n) { return torch::eye(n, torch::kFloat64); }

/// (P ⊗ A + δI)⁻¹ applied to the gradient, by building the whole matrix.
inline torch::Tensor kronecker_solve(const torch::Tensor& p, const torch::Tensor& a, double damping,
                                     const torch::Tensor& gradient) {
  const auto fisher = torch::kron(p, a) + damping * identity(p.size(0) * a.size(0));
  return at::linalg_solve(fisher, gradient.reshape({-1, 1})).view_as(gradient);
}

/// [W b], with gradients or values.
inline torch::Tensor joint(const torch::Tensor& weight, const torch::Tensor& bias) {
  const auto rows = weight.detach().reshape({weight.size(0), -1});
  return bias.defined() ? torch::cat({rows, bias.detach().view({-1, 1})}, 1) : rows.clone();
}

inline torch::Tensor linear_layer(torch::nn::Linear& layer) {
  return joint(layer->weight, layer->bias);
}
inline torch::Tensor linear_gradient(torch::nn::Linear& layer) {
  return joint(layer->weight.grad(), layer->bias.grad());
}

inline torch::Tensor half_squared_error(const torch::Tensor& output, const torch::Tensor& target) {
  return 0.5 * (output - target).square().sum(-1).mean();
}

inline torch::nn::Linear double_linear(int64_t in, int64_t out) {
  torch::nn::Linear layer(in, out);
  layer->to(torch::kFloat64);
  return layer;
}

}  // namespace adaact::testing
