#include <adaact/models/resnet_cifar.h>

#include <torch/nn/init.h>

#include "layers/batch_norm.h"
#include "layers/convolution.h"
#include "layers/global_average.h"
#include "layers/linear.h"
#include "layers/shortened.h"
#include "models/layers.h"

namespace adaact {
namespace {

class BasicBlock : public torch::nn::Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride, const ResNetCifarOptions& options)
      : stride_(stride), new_channels_(out - in) {
    conv1_ = register_module("conv1", plain_convolution(in, out, 3, stride));
    if (options.batchnorm) bn1_ = register_module("bn1", torch::nn::BatchNorm2d(out));
    conv2_ = register_module("conv2", plain_convolution(out, out, 3));
    if (options.batchnorm) bn2_ = register_module("bn2", torch::nn::BatchNorm2d(out));
    const bool keeps_shape = stride == 1 && in == out;
    if (keeps_shape || options.shortcut != ResNetShortcut::Projection) return;
    projection_ = plain_convolution(in, out, 1, stride);
    torch::nn::Sequential projection(projection_);
    if (options.batchnorm) {
      projection_bn_ = torch::nn::BatchNorm2d(out);
      projection->push_back(projection_bn_);
    }
    register_module("shortcut", projection);
  }

  Forked forward(const Forked& x) {
    const auto y = batch_norm_relu(bn1_, convolution(conv1_, x.onward));
    return batch_norm_add_relu(bn2_, convolution(conv2_, y), shortcut(x.around));
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) {
    if (!projection_.is_empty()) return batch_norm(projection_bn_, convolution(projection_, x));
    if (stride_ == 1 && new_channels_ == 0) return x;
    return shortened(x, stride_, new_channels_);
  }

  int64_t stride_;
  int64_t new_channels_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr};
  torch::nn::Conv2d projection_{nullptr};
  torch::nn::BatchNorm2d projection_bn_{nullptr};
};

torch::nn::Sequential stage(int64_t in, int64_t out, int64_t blocks, int64_t stride,
                            const ResNetCifarOptions& options) {
  torch::nn::Sequential sequence(std::make_shared<BasicBlock>(in, out, stride, options));
  for (int64_t block = 1; block < blocks; ++block) {
    sequence->push_back(std::make_shared<BasicBlock>(out, out, 1, options));
  }
  return sequence;
}

void initialise_kaiming(const torch::nn::Module& model) {
  const auto fill = [](const torch::Tensor& weight) {
    torch::nn::init::kaiming_normal_(weight, 0.0, torch::kFanIn, torch::kReLU);
  };
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (const auto* convolution = module->as<torch::nn::Conv2d>()) fill(convolution->weight);
    if (const auto* linear = module->as<torch::nn::Linear>()) fill(linear->weight);
  }
}

}  // namespace

ResNetCifarOptions resnet20_options() {
  ResNetCifarOptions options;
  options.widths = {16, 32, 64};
  options.blocks = {3, 3, 3};
  return options;
}

ResNetCifarOptions resnet32_options() {
  auto options = resnet20_options();
  options.blocks = {5, 5, 5};
  return options;
}

ResNetCifarOptions resnet34_options() {
  ResNetCifarOptions options;
  options.classes = 100;
  options.widths = {64, 128, 256, 512};
  options.blocks = {3, 4, 6, 3};
  options.shortcut = ResNetShortcut::Projection;
  options.initialisation = ResNetInitialisation::LibTorch;
  return options;
}

ResNetCifar::ResNetCifar(const ResNetCifarOptions& options) : Model("linear") {
  TORCH_CHECK(!options.widths.empty() && options.widths.size() == options.blocks.size(),
              "ResNetCifar: there are ", options.widths.size(), " widths and ",
              options.blocks.size(), " numbers of blocks, expected one of each per stage");
  auto features = options.widths.front();
  conv1_ = register_module("conv1", plain_convolution(options.channels, features, 3));
  if (options.batchnorm) bn1_ = register_module("bn1", torch::nn::BatchNorm2d(features));
  for (std::size_t i = 0; i < options.widths.size(); ++i) {
    const auto width = options.widths[i];
    const int64_t stride = i == 0 ? 1 : 2;
    stages_.emplace_back(
        register_module("layer" + std::to_string(i + 1),
                        stage(features, width, options.blocks[i], stride, options)));
    features = width;
  }
  linear_ = register_module("linear", torch::nn::Linear(features, options.classes));
  if (options.initialisation == ResNetInitialisation::KaimingNormal) initialise_kaiming(*this);
}

torch::Tensor ResNetCifar::forward(const torch::Tensor& images) {
  auto x = batch_norm_add_relu(bn1_, convolution(conv1_, images), /*residual=*/{});
  for (auto& stage : stages_) x = stage->forward<Forked>(x);
  return linear(linear_, global_average(x.onward));
}

}  // namespace adaact
