#pragma once

#include <string>

#include <torch/torch.h>
#include <nlohmann/json.hpp>

namespace adaact::testing {

/// The model that a recorded trajectory describes as a list of steps; see tests/golden/README.md.
class ChainModelImpl : public torch::nn::Module {
 public:
  explicit ChainModelImpl(const nlohmann::json& description) : steps_(description) {
    for (const auto& step : steps_) register_layer(step);
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor saved;
    for (const auto& step : steps_) {
      const auto type = step.at("type").get<std::string>();
      if (type == "save") {
        saved = x;
      } else if (type == "add") {
        x = x + saved;
      } else {
        x = apply(step, type, x);
      }
    }
    return x;
  }

 private:
  static std::string name_of(const nlohmann::json& step) {
    return step.at("name").get<std::string>();
  }

  void register_layer(const nlohmann::json& step) {
    const auto type = step.at("type").get<std::string>();
    if (type == "linear") {
      register_module(name_of(step),
                      torch::nn::Linear(torch::nn::LinearOptions(step.at("in"), step.at("out"))
                                            .bias(step.at("bias").get<bool>())));
    } else if (type == "conv2d") {
      const auto list = [&](const char* key) { return step.at(key).get<std::vector<int64_t>>(); };
      register_module(
          name_of(step),
          torch::nn::Conv2d(torch::nn::Conv2dOptions(step.at("in"), step.at("out"), list("kernel"))
                                .stride(list("stride"))
                                .padding(list("padding"))
                                .bias(step.at("bias").get<bool>())));
    } else if (type == "batchnorm2d") {
      register_module(name_of(step), torch::nn::BatchNorm2d(step.at("features").get<int64_t>()));
    } else if (type == "layernorm") {
      const std::vector<int64_t> shape{step.at("features").get<int64_t>()};
      register_module(name_of(step), torch::nn::LayerNorm(torch::nn::LayerNormOptions(shape)));
    }
  }

  torch::Tensor apply(const nlohmann::json& step, const std::string& type, const torch::Tensor& x) {
    if (type == "relu") return torch::relu(x);
    if (type == "gelu") return torch::gelu(x);
    if (type == "tanh") return torch::tanh(x);
    if (type == "flatten") return x.flatten(1);
    if (type == "maxpool2d") return torch::max_pool2d(x, step.at("kernel").get<int64_t>());
    if (type == "mean") return x.mean(step.at("dims").get<std::vector<int64_t>>());
    const auto layer = named_children()[name_of(step)];
    if (auto* linear = layer->as<torch::nn::Linear>()) return linear->forward(x);
    if (auto* convolution = layer->as<torch::nn::Conv2d>()) return convolution->forward(x);
    if (auto* batch_norm = layer->as<torch::nn::BatchNorm2d>()) return batch_norm->forward(x);
    if (auto* layer_norm = layer->as<torch::nn::LayerNorm>()) return layer_norm->forward(x);
    throw std::runtime_error("the chain has an unknown step '" + type + "'");
  }

  nlohmann::json steps_;
};
TORCH_MODULE(ChainModel);

}  // namespace adaact::testing
