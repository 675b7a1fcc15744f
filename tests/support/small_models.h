#pragma once

#include <torch/torch.h>

namespace adaact::testing {

/// A convolution, a normalisation, a grouped convolution and a linear layer: one of every rule.
struct SmallNetImpl : torch::nn::Module {
  SmallNetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    grouped = register_module(
        "grouped",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).groups(2).stride(2).bias(false)));
    fc = register_module("fc", torch::nn::Linear(6 * 3 * 3, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = torch::relu(norm->forward(conv->forward(x)));
    return fc->forward(torch::relu(grouped->forward(y)).flatten(1));
  }
  torch::nn::Conv2d conv{nullptr}, grouped{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(SmallNet);

inline torch::nn::Sequential make_mlp(torch::ScalarType dtype = torch::kFloat64) {
  torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
  model->to(dtype);
  return model;
}

/// A model with the same parameters and buffers.
template <typename Model>
void copy_values(Model& from, Model& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->named_parameters();
  for (auto& parameter : to->named_parameters()) {
    parameter.value().copy_(source[parameter.key()]);
  }
  const auto buffers = from->named_buffers();
  for (auto& buffer : to->named_buffers()) buffer.value().copy_(buffers[buffer.key()]);
}

inline torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nll_loss(torch::log_softmax(logits, 1), labels);
}

/// Images for SmallNet (2×8×8) or rows for make_mlp (6), with labels.
struct Batch {
  torch::Tensor x;
  torch::Tensor y;
};

inline Batch image_batch(int64_t size, torch::ScalarType dtype = torch::kFloat64) {
  return {torch::randn({size, 2, 8, 8}, dtype), torch::randint(0, 5, {size})};
}

inline Batch row_batch(int64_t size, torch::ScalarType dtype = torch::kFloat64) {
  return {torch::randn({size, 6}, dtype), torch::randint(0, 3, {size})};
}

template <typename Model>
double train_step(Model& model, torch::optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  const auto loss = cross_entropy(model->forward(batch.x), batch.y);
  loss.backward();
  optimizer.step();
  return loss.template item<double>();
}

}  // namespace adaact::testing
