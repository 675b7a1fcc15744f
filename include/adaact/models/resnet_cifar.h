#pragma once

#include <cstdint>
#include <vector>

#include <adaact/models/model.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace adaact {

/// How a residual block's input meets an output of another size.
enum class ResNetShortcut : std::uint8_t {
  PaddedSubsample,  // option A: every second pixel, zeros for the new channels; no parameters
  Projection,       // option B: a 1×1 convolution and its normalisation
};

enum class ResNetInitialisation : std::uint8_t {
  KaimingNormal,  // fan-in, gain √2, on convolutions and the head
  LibTorch,       // uniform within ±1/√fan_in
};

struct ResNetCifarOptions {
  int64_t channels = 3;
  int64_t classes = 10;
  std::vector<int64_t> widths;  // channels of each stage; all but the first halve the image
  std::vector<int64_t> blocks;  // residual blocks of each stage
  ResNetShortcut shortcut = ResNetShortcut::PaddedSubsample;
  ResNetInitialisation initialisation = ResNetInitialisation::KaimingNormal;
  bool batchnorm = true;  // false leaves every normalisation out and changes nothing else
};

ResNetCifarOptions resnet20_options();
ResNetCifarOptions resnet32_options();
ResNetCifarOptions resnet34_options();

/// ResNet for small images: a 3×3 stem that keeps their size, stages of basic blocks, global
/// average pooling (He et al., https://arxiv.org/abs/1512.03385).
class ResNetCifar : public Model {
 public:
  explicit ResNetCifar(const ResNetCifarOptions& options);

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};  // empty without batch normalisation
  std::vector<torch::nn::Sequential> stages_;
  torch::nn::Linear linear_{nullptr};
};

}  // namespace adaact
