#pragma once

#include <vector>

#include <adaact/models/model.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace adaact {

struct ResNetImageNetOptions {
  int64_t classes = 1000;
  std::vector<int64_t> blocks;  // bottleneck blocks of each of the four stages
  double drop_path = 0.0;       // of the last block; it grows linearly from 0 at the first
};

ResNetImageNetOptions resnet50_options();
ResNetImageNetOptions resnet101_options();

/// ResNet of bottleneck blocks, "v1.5": the 3×3 convolution has the stride. State names are
/// torchvision's, the initialisation is timm's.
class ResNetImageNet : public Model {
 public:
  explicit ResNetImageNet(const ResNetImageNetOptions& options);

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::vector<torch::nn::Sequential> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace adaact
