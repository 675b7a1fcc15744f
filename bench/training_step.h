#pragma once

#include <memory>
#include <string>

#include <adaact/adaact.h>
#include <adaact/models/registry.h>

namespace adaact::bench {

/// A model, an optimizer and one batch of 128 images: everything a training step needs.
class TrainingStep {
 public:
  /// Where the optimizer comes from. Baselines are LibTorch's own classes without anything of this
  /// library, at the settings of the paper's CIFAR table; there are "sgd" and "adam".
  enum class Source { Registry, Baseline };

  TrainingStep(const std::string& model_name, const std::string& optimizer_name, Source source,
               const std::string& options = "{}")
      : images_(torch::randn({kBatch, 3, 32, 32})),
        labels_(torch::randint(0, 10, {kBatch})),
        module_(make_model(model_name)) {
    if (source == Source::Registry) {
      optimizer_ = make_optimizer(optimizer_name, *module_, options);
    } else if (optimizer_name == "sgd") {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          module_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
    } else if (optimizer_name == "adam") {
      optimizer_ = std::make_unique<torch::optim::Adam>(
          module_->parameters(), torch::optim::AdamOptions(1e-3).weight_decay(5e-4));
    } else {
      TORCH_CHECK(false, "no baseline '", optimizer_name, "'; there are: sgd, adam");
    }
  }

  void run() {
    optimizer_->step([this] {
      optimizer_->zero_grad();
      auto loss = torch::nll_loss(torch::log_softmax(module_->forward(images_), 1), labels_);
      loss.backward();
      return loss;
    });
  }

  torch::nn::Module& module() { return *module_; }
  torch::optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  static constexpr int64_t kBatch = 128;

  torch::Tensor images_;
  torch::Tensor labels_;
  std::shared_ptr<Model> module_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace adaact::bench
