#include "layers/convolution.h"

#include <torch/nn/functional/conv.h>

#include "layers/narrow_weights.h"

namespace adaact {

torch::Tensor convolution(const torch::nn::Conv2d& layer, const torch::Tensor& x) {
  const auto& options = layer->options;
  const auto weight = NarrowWeights::of(layer->weight);
  if (weight.is_same(layer->weight) ||
      torch::enumtype::get_enum_name(options.padding_mode()) != "kZeros") {
    auto plain = layer;
    return plain->forward(x);
  }
  return torch::nn::functional::conv2d(x, weight,
                                       torch::nn::functional::Conv2dFuncOptions()
                                           .bias(NarrowWeights::of(layer->bias))
                                           .stride(options.stride())
                                           .padding(options.padding())
                                           .dilation(options.dilation())
                                           .groups(options.groups()));
}

}  // namespace adaact
