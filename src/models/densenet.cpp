#include <adaact/models/densenet.h>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"

namespace adaact {
namespace {

/// The 1×1 convolution narrows to this many times the growth before the 3×3 convolution.
constexpr int64_t kBottleneck = 4;

class DenseLayer : public torch::nn::Module {
 public:
  DenseLayer(int64_t in, int64_t growth) {
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(in));
    conv1_ = register_module("conv1", plain_convolution(in, kBottleneck * growth, 1));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(kBottleneck * growth));
    conv2_ = register_module("conv2", plain_convolution(kBottleneck * growth, growth, 3));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    auto y = conv1_->forward(bn1_->forward(x).relu_());
    y = conv2_->forward(bn2_->forward(y).relu_());
    return torch::cat({y, x}, 1);
  }

 private:
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
};

torch::nn::Sequential dense_block(int64_t in, int64_t growth, int64_t layers) {
  torch::nn::Sequential block;
  for (int64_t layer = 0; layer < layers; ++layer) {
    block->push_back(std::make_shared<DenseLayer>(in + layer * growth, growth));
  }
  return block;
}

torch::nn::Sequential transition(int64_t in, int64_t out) {
  torch::nn::Sequential layers;
  layers->push_back("bn", torch::nn::BatchNorm2d(in));
  layers->push_back("relu", torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
  layers->push_back("conv", plain_convolution(in, out, 1));
  layers->push_back("pool", torch::nn::AvgPool2d(2));
  return layers;
}

}  // namespace

DenseNet::DenseNet(const DenseNetOptions& options) : Model("linear") {
  auto features = 2 * options.growth;
  conv1_ = register_module("conv1", plain_convolution(options.channels, features, 3));
  for (std::size_t i = 0; i < options.blocks.size(); ++i) {
    const auto number = std::to_string(i + 1);
    stages_.emplace_back(register_module("dense" + number,
                                         dense_block(features, options.growth, options.blocks[i])));
    features += options.blocks[i] * options.growth;
    if (i + 1 == options.blocks.size()) break;
    const auto compressed =
        static_cast<int64_t>(static_cast<double>(features) * options.compression);
    stages_.emplace_back(register_module("trans" + number, transition(features, compressed)));
    features = compressed;
  }
  bn_ = register_module("bn", torch::nn::BatchNorm2d(features));
  linear_ = register_module("linear", torch::nn::Linear(features, options.classes));
}

torch::Tensor DenseNet::forward(const torch::Tensor& images) {
  auto x = conv1_->forward(images);
  for (auto& stage : stages_) x = stage->forward(x);
  return linear_->forward(global_average(bn_->forward(x).relu_()));
}

}  // namespace adaact
