#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

namespace adaact {

/// A convolution as residual and dense networks use it: without bias, padded so that stride 1 keeps
/// the size of the image.
inline torch::nn::Conv2d plain_convolution(int64_t in, int64_t out, int64_t kernel,
                                           int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// For models whose layers fit one size of image only: LibTorch would name two matrices instead.
inline void check_images(const char* model, const torch::Tensor& images, int64_t channels,
                         int64_t size) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == channels && images.size(2) == size &&
                  images.size(3) == size,
              model, ": images have shape ", images.sizes(), ", expected [N, ", channels, ", ",
              size, ", ", size, "]");
}

}  // namespace adaact
