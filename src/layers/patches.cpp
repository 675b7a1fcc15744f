#include "layers/patches.h"

#include <torch/torch.h>

#include "layers/convolution.h"
#include "layers/narrow_weights.h"
#include "layers/plain_layers.h"

namespace adaact {

bool cuts_into_patches(const torch::nn::Conv2dImpl& convolution) {
  const auto& options = convolution.options;
  const auto size = convolution.weight.sizes().slice(2);
  return size[0] > 1 && size == at::IntArrayRef(*options.stride()) && options.groups() == 1 &&
         at::IntArrayRef(*options.dilation()) == at::IntArrayRef({1, 1});
}

torch::Tensor embed_patches(const torch::nn::Conv2d& layer, const torch::Tensor& images) {
  const auto& weight = layer->weight;
  const auto height = weight.size(2);
  const auto width = weight.size(3);
  if (!may_be_fused(images) || !cuts_into_patches(*layer) || !weight.is_contiguous() ||
      images.size(2) % height != 0 || images.size(3) % width != 0) {
    return convolution(layer, images).flatten(2).transpose(1, 2);
  }
  const auto rows = images.size(2) / height;
  const auto columns = images.size(3) / width;
  const auto patches = images.reshape({-1, images.size(1), rows, height, columns, width})
                           .permute({0, 2, 4, 1, 3, 5})
                           .reshape({-1, rows * columns, images.size(1) * height * width});
  return torch::linear(patches, NarrowWeights::of(weight).flatten(1),
                       NarrowWeights::of(layer->bias));
}

}  // namespace adaact
