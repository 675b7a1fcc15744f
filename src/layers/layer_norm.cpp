#include "layers/layer_norm.h"

#include <torch/torch.h>

#include "kernels/autocast_setting.h"
#include "kernels/sum_dtype.h"
#include "layers/layer_norm_cuda.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = c10::optional<torch::Tensor>;

class FusedLayerNorm : public torch::autograd::Function<FusedLayerNorm> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const OptionalTensor& branch, const OptionalTensor& branch_bias,
                               const torch::Tensor& weight, const torch::Tensor& bias, double eps,
                               torch::ScalarType output_dtype) {
    const auto rows = layer_norm_forward_cuda(x, branch ? *branch : torch::Tensor(),
                                              branch_bias ? *branch_bias : torch::Tensor(), weight,
                                              bias, eps, output_dtype);
    const auto stream = branch ? rows.stream : x.variable_data();
    context->save_for_backward(
        {branch ? stream : x, rows.mean, rows.inverse_deviation, weight, bias});
    context->saved_data["eps"] = eps;
    const auto added = !branch        ? Added::Nothing
                       : !branch_bias ? Added::Branch
                                      : Added::BranchAndBias;
    context->saved_data["added"] = static_cast<std::int64_t>(added);
    context->set_materialize_grads(false);
    return {stream, rows.output};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto added = static_cast<Added>(context->saved_data["added"].toInt());
    const auto& of_stream = gradients[0];
    const auto& of_output = gradients[1];
    if (torch::GradMode::is_enabled()) {
      return differentiable_gradients(saved, context->saved_data["eps"].toDouble(), added,
                                      of_stream, of_output);
    }
    if (!of_output.defined()) {
      return gradients_of(of_stream, added, {}, {});
    }
    NormalisedRows rows;
    rows.stream = saved[0].contiguous();
    rows.mean = saved[1];
    rows.inverse_deviation = saved[2];
    const auto result = layer_norm_backward_cuda(rows, saved[3], of_output, of_stream, added);
    return {result.x, result.branch, result.branch_bias, result.weight, result.bias, {}, {}};
  }

 private:
  static variable_list gradients_of(const torch::Tensor& dx, Added added,
                                    const torch::Tensor& dweight, const torch::Tensor& dbias) {
    const bool has_bias = added == Added::BranchAndBias && dx.defined();
    return {dx,
            added == Added::Nothing ? torch::Tensor() : dx,
            has_bias ? dx.reshape({-1, dx.size(-1)}).sum(0) : torch::Tensor(),
            dweight,
            dbias,
            {},
            {}};
  }

  /// As operators that autograd can differentiate once more.
  static variable_list differentiable_gradients(const variable_list& saved, double eps, Added added,
                                                const torch::Tensor& of_stream,
                                                const torch::Tensor& of_output) {
    if (!of_output.defined()) return gradients_of(of_stream, added, {}, {});
    const auto &stream = saved[0], &weight = saved[3];
    const auto mean = [](const torch::Tensor& of) { return of.mean(-1, /*keepdim=*/true); };
    const auto apart = stream - mean(stream);
    const auto inverse_deviation = (mean(apart * apart) + eps).rsqrt();
    const auto normalised = apart * inverse_deviation;
    const auto dy = of_output.to(stream.scalar_type());
    const auto scaled = dy * weight;
    auto dx = inverse_deviation * (scaled - mean(scaled) - normalised * mean(scaled * normalised));
    if (of_stream.defined()) dx = dx + of_stream;
    const auto of_channels = [&](const torch::Tensor& of) {
      return of.reshape({-1, weight.numel()}).sum(0);
    };
    return gradients_of(dx, added, of_channels(dy * normalised), of_channels(dy));
  }
};

bool can_be_fused(const torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  const auto& shape = norm->options.normalized_shape();
  return may_be_fused(x) && norm->options.elementwise_affine() && shape.size() == 1 &&
         x.dim() > 0 && x.numel() > 0 && x.size(-1) == shape[0] &&
         norm->weight.scalar_type() == x.scalar_type() &&
         has_layer_norm_kernel(shape[0], x.scalar_type());
}

}  // namespace

NormalisedStream add_layer_norm(torch::nn::LayerNorm& norm, const torch::Tensor& x,
                                const Branch& branch) {
  if (!can_be_fused(norm, x) ||
      (branch.bias.defined() && branch.bias.scalar_type() != x.scalar_type())) {
    const auto stream = branch.values.defined() ? x + branch.sum() : x;
    return {stream, norm->forward(stream)};
  }
  const auto narrow = autocast_dtype(x.device().type()).value_or(x.scalar_type());
  const auto dtype = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : narrow;
  OptionalTensor added;
  OptionalTensor bias;
  if (branch.values.defined()) {
    added = branch.values.to(dtype);
    if (branch.bias.defined()) bias = branch.bias;
  }
  const auto outputs =
      FusedLayerNorm::apply(x, added, bias, norm->weight, norm->bias, norm->options.eps(), dtype);
  return {outputs[0], outputs[1]};
}

}  // namespace adaact
