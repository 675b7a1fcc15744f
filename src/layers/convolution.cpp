#include "layers/convolution.h"

#include <utility>
#include <vector>

#include <torch/nn/functional/conv.h>
#include <torch/torch.h>

#include "layers/narrow_weights.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Shape {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  std::int64_t groups;
};

torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& x,
                              const torch::Tensor& weight, const Shape& shape) {
  return std::get<1>(at::convolution_backward(
      gradient, x, weight, /*bias_sizes=*/c10::nullopt, shape.stride, shape.padding, shape.dilation,
      /*transposed=*/false, /*output_padding=*/{0, 0}, shape.groups, {false, true, false}));
}

/// Padding is a variant of c10's or, from LibTorch 2 on, of std's. With a template of that name in sight the compiler
/// looks for the right one where the variant comes from.
template <typename>
void get_if();

std::vector<std::int64_t> sizes(const torch::ExpandingArray<2>& values) {
  return {values->begin(), values->end()};
}

/// The result y of a convolution that was given a constant, as it is. Its gradient is handed on to the convolution,
/// which makes that of x, and that of the weight is made aside meanwhile.
class WeightGradientAside : public torch::autograd::Function<WeightGradientAside> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& y,
                               const torch::Tensor& x, const torch::Tensor& weight,
                               const Shape& shape, const c10::IValue& parameter,
                               const c10::intrusive_ptr<GradientsAside>& aside) {
    context->save_for_backward({x, weight});
    auto& data = context->saved_data;
    data["parameter"] = parameter;
    data["stride"] = shape.stride;
    data["padding"] = shape.padding;
    data["dilation"] = shape.dilation;
    data["groups"] = shape.groups;
    data["aside"] = c10::IValue::make_capsule(aside);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& data = context->saved_data;
    const auto& gradient = gradients[0];
    variable_list of_inputs(6);
    of_inputs[0] = gradient;
    if (!gradient.defined() || !context->needs_input_grad(2)) return of_inputs;
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const Shape shape{data["stride"].toIntVector(), data["padding"].toIntVector(),
                      data["dilation"].toIntVector(), data["groups"].toInt()};
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      of_inputs[2] = weight_gradient(gradient, x, weight, shape);
      return of_inputs;
    }
    const auto aside =
        c10::static_intrusive_pointer_cast<GradientsAside>(data["aside"].toCapsule());
    aside->add(data["parameter"].toTensor(), {gradient, x},
               [&] { return weight_gradient(gradient, x, weight, shape); });
    return of_inputs;
  }
};

}  // namespace

torch::Tensor convolution(const torch::nn::Conv2d& layer, const torch::Tensor& x) {
  const auto& options = layer->options;
  const auto weight = NarrowWeights::of(layer->weight);
  const auto* padding = get_if<torch::ExpandingArray<2>>(&options.padding());
  if (weight.is_same(layer->weight) || padding == nullptr ||
      torch::enumtype::get_enum_name(options.padding_mode()) != "kZeros") {
    auto plain = layer;
    return plain->forward(x);
  }
  const auto convolve = [&](const torch::Tensor& kernels) {
    return torch::conv2d(x, kernels, NarrowWeights::of(layer->bias), options.stride(), *padding,
                         options.dilation(), options.groups());
  };
  // Without a gradient of x there is nothing to do meanwhile.
  const bool pays = torch::GradMode::is_enabled() && x.requires_grad() && x.dim() == 4 &&
                    x.scalar_type() == weight.scalar_type() && !layer->bias.defined();
  const auto constant = pays ? NarrowWeights::constant_of(layer->weight) : std::nullopt;
  if (!constant) return convolve(weight);
  return WeightGradientAside::apply(
      convolve(constant->copy), x, weight,
      Shape{sizes(options.stride()), sizes(*padding), sizes(options.dilation()), options.groups()},
      c10::IValue(layer->weight), constant->gradients);
}

}  // namespace adaact
