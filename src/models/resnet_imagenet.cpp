#include <adaact/models/resnet_imagenet.h>

#include <numeric>

#include <torch/nn/init.h>

#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/global_average.h"
#include "layers/linear.h"
#include "layers/max_pool.h"
#include "models/drop_path.h"
#include "models/layers.h"

namespace adaact {
namespace {

constexpr int64_t kStemWidth = 64;
constexpr int64_t kExpansion = 4;  // a block's output has this many times the channels of its 3×3

class Bottleneck : public torch::nn::Module {
 public:
  Bottleneck(int64_t in, int64_t width, int64_t stride, double drop_path_rate)
      : drop_path_rate_(drop_path_rate) {
    const auto out = kExpansion * width;
    conv1_ = register_module("conv1", plain_convolution(in, width, 1));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", plain_convolution(width, width, 3, stride));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(width));
    conv3_ = register_module("conv3", plain_convolution(width, out, 1));
    bn3_ = register_module("bn3", torch::nn::BatchNorm2d(out));
    if (stride != 1 || in != out) {
      downsample_ = plain_convolution(in, out, 1, stride);
      downsample_bn_ = torch::nn::BatchNorm2d(out);
      register_module("downsample", torch::nn::Sequential(downsample_, downsample_bn_));
    }
    // Every block starts as the identity, so that depth costs nothing at first.
    torch::nn::init::zeros_(bn3_->weight);
  }

  Forked forward(const Forked& x) {
    auto y = batch_norm_relu(bn1_, convolution(conv1_, x.onward));
    y = convolution(conv3_, batch_norm_relu(bn2_, convolution(conv2_, y)));
    if (drop_path_rate_ == 0.0 || !is_training()) {
      return batch_norm_add_relu(bn3_, y, shortcut(x.around));
    }
    y = drop_path(batch_norm(bn3_, y), drop_path_rate_, is_training());
    y.add_(shortcut(x.around)).relu_();
    return {y, y};
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) {
    return downsample_.is_empty() ? x : batch_norm(downsample_bn_, convolution(downsample_, x));
  }

  double drop_path_rate_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Conv2d downsample_{nullptr};
  torch::nn::BatchNorm2d downsample_bn_{nullptr};
};

}  // namespace

ResNetImageNetOptions resnet50_options() {
  ResNetImageNetOptions options;
  options.blocks = {3, 4, 6, 3};
  return options;
}

ResNetImageNetOptions resnet101_options() {
  ResNetImageNetOptions options;
  options.blocks = {3, 4, 23, 3};
  return options;
}

ResNetImageNet::ResNetImageNet(const ResNetImageNetOptions& options) : Model("fc") {
  conv1_ = register_module("conv1", plain_convolution(3, kStemWidth, 7, 2));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(kStemWidth));
  const auto blocks = std::accumulate(options.blocks.begin(), options.blocks.end(), int64_t{0});
  auto features = kStemWidth;
  auto width = kStemWidth;
  int64_t built = 0;
  for (std::size_t i = 0; i < options.blocks.size(); ++i) {
    torch::nn::Sequential stage;
    for (int64_t block = 0; block < options.blocks[i]; ++block) {
      const int64_t stride = i > 0 && block == 0 ? 2 : 1;
      const auto rate = drop_path_rate(options.drop_path, built++, blocks);
      stage->push_back(std::make_shared<Bottleneck>(features, width, stride, rate));
      features = kExpansion * width;
    }
    stages_.emplace_back(register_module("layer" + std::to_string(i + 1), stage));
    width *= 2;
  }
  fc_ = register_module("fc", torch::nn::Linear(features, options.classes));
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
    }
  }
}

torch::Tensor ResNetImageNet::forward(const torch::Tensor& images) {
  const auto stem = max_pool(batch_norm_relu(bn1_, convolution(conv1_, images)), /*kernel=*/3,
                             /*stride=*/2, /*padding=*/1);
  Forked x{stem, stem};
  for (auto& stage : stages_) x = stage->forward<Forked>(x);
  return linear(fc_, global_average(x.onward));
}

}  // namespace adaact
