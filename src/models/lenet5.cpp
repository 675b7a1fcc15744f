#include <adaact/models/lenet5.h>

#include "layers/convolution.h"
#include "layers/linear.h"
#include "models/layers.h"

namespace adaact {
namespace {

constexpr int64_t kKernel = 5;
constexpr int64_t kFeatures = 16 * 5 * 5;  // what is left of a 32×32 image

}  // namespace

LeNet5::LeNet5(int64_t channels, int64_t image_size, int64_t classes)
    : Model("fc3"), channels_(channels), image_size_(image_size) {
  TORCH_CHECK(image_size == 28 || image_size == 32, "LeNet5: image_size is ", image_size,
              ", expected 28 or 32");
  const int64_t padding = (32 - image_size) / 2;
  conv1_ = register_module(
      "conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 6, kKernel).padding(padding)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(6, 16, kKernel));
  fc1_ = register_module("fc1", torch::nn::Linear(kFeatures, 120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, classes));
}

torch::Tensor LeNet5::forward(const torch::Tensor& images) {
  check_images("LeNet5", images, channels_, image_size_);
  // ReLU and the maximum may be exchanged, values and gradients stay the same; after pooling there
  // is a quarter of the work.
  auto x = torch::max_pool2d(convolution(conv1_, images), 2).relu_();
  x = torch::max_pool2d(convolution(conv2_, x), 2).relu_();
  x = linear(fc1_, x.flatten(1)).relu_();
  x = linear(fc2_, x).relu_();
  return linear(fc3_, x);
}

}  // namespace adaact
