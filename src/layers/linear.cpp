#include "layers/linear.h"

#include <cmath>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/narrow_weights.h"
#include "layers/plain_layers.h"
#include "moments/offered_squares.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class FusedBiasGelu : public torch::autograd::Function<FusedBiasGelu> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& bias, bool squares_wanted) {
    context->save_for_backward({x, bias});
    const auto result = bias_gelu_forward_cuda(x, bias, squares_wanted);
    // apply() returns this very tensor.
    if (squares_wanted) offer_squares(result.output, result.squares);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &bias = saved[1];
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      const auto z = x.to(bias.scalar_type()) + bias;
      const auto slope = 0.5 * (1.0 + torch::erf(z * M_SQRT1_2)) +
                         z * torch::exp(-0.5 * z * z) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
      const auto dz = gradients[0] * slope;
      return {dz.to(x.scalar_type()), dz.reshape({-1, bias.numel()}).sum(0), {}};
    }
    const auto result = bias_gelu_backward_cuda(gradients[0], x, bias);
    return {result.x, result.bias, {}};
  }
};

}  // namespace

torch::Tensor linear(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, NarrowWeights::of(layer->weight), NarrowWeights::of(layer->bias));
}

Branch linear_branch(const torch::nn::Linear& layer, const torch::Tensor& x) {
  if (!may_be_fused(x)) return {linear(layer, x), {}};
  return {torch::linear(x, NarrowWeights::of(layer->weight)), layer->bias};
}

torch::Tensor linear_gelu(const torch::nn::Linear& layer, const torch::Tensor& x) {
  if (!may_be_fused(x) || !layer->bias.defined() || x.numel() == 0) {
    return torch::gelu(linear(layer, x));
  }
  const auto product = torch::linear(x, NarrowWeights::of(layer->weight));
  if (!has_kernels(product.scalar_type()) || sum_dtype(product) != layer->bias.scalar_type() ||
      !layer->bias.is_contiguous()) {
    return torch::gelu(product + layer->bias);
  }
  return FusedBiasGelu::apply(product, layer->bias, squares_are_wanted(layer->bias));
}

}  // namespace adaact
