#include "layers/layer_norm.h"

#include <torch/torch.h>

#include "kernels/autocast_setting.h"
#include "kernels/sum_dtype.h"
#include "layers/branch.h"
#include "layers/layer_norm_cuda.h"
#include "layers/plain_layers.h"
#include "moments/offered_squares.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = c10::optional<torch::Tensor>;

/// Gives the stream and the output. Where the sum with the branch is not written, the stream has the values of x.
class FusedLayerNorm : public torch::autograd::Function<FusedLayerNorm> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const OptionalTensor& unwritten,
                               const OptionalTensor& unwritten_bias, const OptionalTensor& branch,
                               const OptionalTensor& branch_bias, const torch::Tensor& weight,
                               const torch::Tensor& bias, double eps,
                               torch::ScalarType output_dtype, bool squares_wanted) {
    const SummedRows summed{x, branch_of(unwritten, unwritten_bias),
                            branch_of(branch, branch_bias)};
    const auto rows =
        layer_norm_forward_cuda(summed, weight, bias, eps, output_dtype, squares_wanted);
    // apply() returns this very tensor.
    if (squares_wanted) offer_squares(rows.output, rows.squares);
    const bool is_written = summed.unwritten.values.defined();
    const auto kept = is_written ? Branch{} : summed.branch;
    const auto stream = is_written ? rows.stream : x.variable_data();
    context->save_for_backward({is_written ? stream : x, rows.mean, rows.inverse_deviation, weight,
                                kept.values, kept.bias});
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
    rows.stream = saved[0];
    rows.mean = saved[1];
    rows.inverse_deviation = saved[2];
    rows.unwritten = {saved[4], saved[5]};
    const auto result = layer_norm_backward_cuda(rows, saved[3], of_output, of_stream, added);
    return {result.x, {}, {}, result.branch, result.branch_bias, result.weight, result.bias,
            {},       {}, {}};
  }

 private:
  static Branch branch_of(const OptionalTensor& values, const OptionalTensor& bias) {
    return {values ? *values : torch::Tensor(), bias ? *bias : torch::Tensor()};
  }

  static variable_list gradients_of(const torch::Tensor& dx, Added added,
                                    const torch::Tensor& dweight, const torch::Tensor& dbias) {
    const bool has_bias = added == Added::BranchAndBias && dx.defined();
    return {dx,
            {},
            {},
            added == Added::Nothing ? torch::Tensor() : dx,
            has_bias ? dx.reshape({-1, dx.size(-1)}).sum(0) : torch::Tensor(),
            dweight,
            dbias,
            {},
            {},
            {}};
  }

  /// The gradients as operators that autograd can differentiate once more.
  static variable_list differentiable_gradients(const variable_list& saved, double eps, Added added,
                                                const torch::Tensor& of_stream,
                                                const torch::Tensor& of_output) {
    if (!of_output.defined()) return gradients_of(of_stream, added, {}, {});
    const auto stream = ResidualStream{saved[0], {saved[4], saved[5]}}.sum();
    const auto& weight = saved[3];
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

NormalisedStream add_layer_norm(torch::nn::LayerNorm& norm, const ResidualStream& given,
                                const Branch& branch) {
  const auto wide = given.values.scalar_type();
  if (!can_be_fused(norm, given.values) ||
      (branch.bias.defined() && branch.bias.scalar_type() != wide)) {
    const auto stream = branch.values.defined() ? given.sum() + branch.sum() : given.sum();
    return {{stream, {}}, norm->forward(stream)};
  }
  const auto narrow = autocast_dtype(given.values.device().type()).value_or(wide);
  const auto dtype = wide == torch::kFloat64 ? torch::kFloat64 : narrow;
  auto x = given;
  if (x.unwritten.values.defined() && x.unwritten.values.scalar_type() != dtype) {
    x = {given.sum(), {}};  // autocast was another there
  }
  const auto optional = [](const torch::Tensor& tensor) {
    return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
  };
  const Branch added{branch.values.defined() ? branch.values.to(dtype) : torch::Tensor(),
                     branch.values.defined() ? branch.bias : torch::Tensor()};
  const auto outputs =
      FusedLayerNorm::apply(x.values, optional(x.unwritten.values), optional(x.unwritten.bias),
                            optional(added.values), optional(added.bias), norm->weight, norm->bias,
                            norm->options.eps(), dtype, squares_are_wanted(norm->weight));
  if (x.unwritten.values.defined() || !added.values.defined()) {
    return {{outputs[0], {}}, outputs[1]};
  }
  const auto constant = [](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.detach() : tensor;
  };
  return {{outputs[0], {constant(added.values), constant(added.bias)}}, outputs[1]};
}

}  // namespace adaact
