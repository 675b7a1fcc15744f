#include <adaact/models/mlp.h>

#include "layers/linear.h"
#include "models/layers.h"

namespace adaact {

Mlp::Mlp(int64_t channels, int64_t image_size, const std::vector<int64_t>& hidden, int64_t classes)
    : Model("fc" + std::to_string(hidden.size() + 1)),
      channels_(channels),
      image_size_(image_size) {
  auto features = channels * image_size * image_size;
  auto sizes = hidden;
  sizes.push_back(classes);
  for (const auto size : sizes) {
    const auto name = "fc" + std::to_string(layers_.size() + 1);
    layers_.emplace_back(register_module(name, torch::nn::Linear(features, size)));
    features = size;
  }
}

torch::Tensor Mlp::forward(const torch::Tensor& images) {
  check_images("Mlp", images, channels_, image_size_);
  auto x = linear(layers_.front(), images.flatten(1));
  for (std::size_t layer = 1; layer < layers_.size(); ++layer) {
    x = linear(layers_[layer], x.relu_());
  }
  return x;
}

}  // namespace adaact
