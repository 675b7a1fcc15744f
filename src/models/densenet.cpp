#include <adaact/models/densenet.h>

#include <torch/nn/functional.h>

#include "layers/average_pool.h"
#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/feature_buffer.h"
#include "layers/global_average.h"
#include "layers/linear.h"
#include "models/layers.h"

namespace adaact {

class DenseNetStage : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

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

  void add_to(FeatureBuffer& buffer) {
    const auto x = batch_norm_relu_around(bn1_, buffer.features());
    const auto y = batch_norm_relu(bn2_, convolution(conv1_, x.onward));
    buffer.add(convolution(conv2_, y), x.around);
  }

 private:
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
};

class DenseBlock : public DenseNetStage {
 public:
  DenseBlock(int64_t in, int64_t growth, int64_t layers) : added_channels_(layers * growth) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      layers_.push_back(register_module(std::to_string(layer),
                                        std::make_shared<DenseLayer>(in + layer * growth, growth)));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    FeatureBuffer buffer(x, added_channels_, is_training());
    for (const auto& layer : layers_) layer->add_to(buffer);
    return buffer.features();
  }

 private:
  int64_t added_channels_;
  std::vector<std::shared_ptr<DenseLayer>> layers_;
};

class Transition : public DenseNetStage {
 public:
  Transition(int64_t in, int64_t out) {
    bn_ = register_module("bn", torch::nn::BatchNorm2d(in));
    conv_ = register_module("conv", plain_convolution(in, out, 1));
  }

  torch::Tensor forward(const torch::Tensor& x) override {
    return average_pool(convolution(conv_, batch_norm_relu(bn_, x)), /*size=*/2);
  }

 private:
  torch::nn::BatchNorm2d bn_{nullptr};
  torch::nn::Conv2d conv_{nullptr};
};

}  // namespace

DenseNet::DenseNet(const DenseNetOptions& options) : Model("linear") {
  auto features = 2 * options.growth;
  conv1_ = register_module("conv1", plain_convolution(options.channels, features, 3));
  for (std::size_t i = 0; i < options.blocks.size(); ++i) {
    const auto number = std::to_string(i + 1);
    stages_.push_back(
        register_module("dense" + number,
                        std::make_shared<DenseBlock>(features, options.growth, options.blocks[i])));
    features += options.blocks[i] * options.growth;
    if (i + 1 == options.blocks.size()) break;
    const auto compressed =
        static_cast<int64_t>(static_cast<double>(features) * options.compression);
    stages_.push_back(
        register_module("trans" + number, std::make_shared<Transition>(features, compressed)));
    features = compressed;
  }
  bn_ = register_module("bn", torch::nn::BatchNorm2d(features));
  linear_ = register_module("linear", torch::nn::Linear(features, options.classes));
}

torch::Tensor DenseNet::forward(const torch::Tensor& images) {
  auto x = convolution(conv1_, images);
  for (const auto& stage : stages_) x = stage->forward(x);
  return linear(linear_, global_average(batch_norm_relu(bn_, x)));
}

}  // namespace adaact
