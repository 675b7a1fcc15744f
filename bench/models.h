#pragma once

#include <torch/torch.h>

namespace adaact::bench {

/// LeNet-5 for 3×32×32 images.
struct LeNet5Impl : torch::nn::Module {
  LeNet5Impl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(3, 6, 5));
    conv2 = register_module("conv2", torch::nn::Conv2d(6, 16, 5));
    fc1 = register_module("fc1", torch::nn::Linear(400, 120));
    fc2 = register_module("fc2", torch::nn::Linear(120, 84));
    fc3 = register_module("fc3", torch::nn::Linear(84, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1->forward(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2).flatten(1);
    return fc3->forward(torch::relu(fc2->forward(torch::relu(fc1->forward(x)))));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};
TORCH_MODULE(LeNet5);

/// Two 3×3 convolutions with batch normalisation and the parameter-free shortcut of CIFAR ResNets.
struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride) : in_(in), out_(out) {
    const auto conv = [](int64_t from, int64_t to, int64_t by) {
      return torch::nn::Conv2d(
          torch::nn::Conv2dOptions(from, to, 3).stride(by).padding(1).bias(false));
    };
    conv1 = register_module("conv1", conv(in, out, stride));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv(out, out, 1));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = bn2->forward(conv2->forward(torch::relu(bn1->forward(conv1->forward(x)))));
    return torch::relu(y + shortcut(x));
  }

 private:
  torch::Tensor shortcut(const torch::Tensor& x) const {
    if (in_ == out_) return x;
    const auto side = (out_ - in_) / 2;
    return torch::constant_pad_nd(x.slice(2, 0, x.size(2), 2).slice(3, 0, x.size(3), 2),
                                  {0, 0, 0, 0, side, side});
  }

  int64_t in_, out_;
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
};
TORCH_MODULE(BasicBlock);

/// A stack of the shape of ResNet-20: 19 convolutions in stages of 16, 32 and 64 channels.
struct ResNet20Impl : torch::nn::Module {
  ResNet20Impl() {
    stem = register_module(
        "stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)));
    stem_bn = register_module("stem_bn", torch::nn::BatchNorm2d(16));
    blocks = register_module("blocks", torch::nn::Sequential());
    int64_t in = 16;
    for (const int64_t out : {16, 32, 64}) {
      for (int block = 0; block < 3; ++block) {
        blocks->push_back(BasicBlock(in, out, in == out ? 1 : 2));
        in = out;
      }
    }
    fc = register_module("fc", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto features = blocks->forward(torch::relu(stem_bn->forward(stem->forward(x))));
    return fc->forward(features.mean({2, 3}));
  }
  torch::nn::Conv2d stem{nullptr};
  torch::nn::BatchNorm2d stem_bn{nullptr};
  torch::nn::Sequential blocks{nullptr};
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet20);

}  // namespace adaact::bench
