#pragma once

// A rank's part in the training of a small model by Trainer.

#include <memory>
#include <string>
#include <vector>

#include <adaact/data/synthetic.h>
#include <adaact/models/model.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/registry.h>
#include <adaact/train/trainer.h>
#include <torch/torch.h>

#include "layers/batch_norm.h"
#include "models/drop_path.h"

namespace ranks_training {  // its words are other tests' words too, and they are compiled as one

using adaact::EpochMetrics;
using adaact::Loader;
using adaact::LoaderOptions;
using adaact::StepMetrics;
using adaact::Trainer;
using adaact::TrainerOptions;
using Tensors = std::vector<torch::Tensor>;

inline constexpr std::int64_t kImages = 32;
// No number of ranks divides it, and the last batch has four images.
inline constexpr std::int64_t kBatch = 7;
inline constexpr std::int64_t kMoreThanTheLastBatchHas = 5;

/// In float64, with weights that no random numbers are drawn for: the generator is everybody's.
class WideModel : public adaact::Model {
 public:
  WideModel(bool with_norm, double drop_path)
      : Model("head"), with_norm_(with_norm), drop_path_(drop_path) {
    // Before a normalisation a bias has no gradient but for rounding, of which Adam would make whole steps.
    const auto convolution = torch::nn::Conv2dOptions(1, 3, 3).stride(2).bias(!with_norm);
    conv_ = register_module("conv", torch::nn::Conv2d(convolution));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(3));
    head_ = register_module("head", torch::nn::Linear(27, 10));
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    double phase = 0.0;
    for (auto& parameter : parameters()) {
      const auto places = torch::arange(parameter.numel(), torch::kFloat64).view_as(parameter);
      parameter.copy_((places * 0.7 + phase).sin() * 0.3);
      phase += 1.0;
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    auto x = conv_->forward(images.to(torch::kFloat64));
    if (with_norm_) x = adaact::batch_norm(norm_, x);
    return head_->forward(adaact::drop_path(x.tanh(), drop_path_, is_training()).flatten(1));
  }

 private:
  bool with_norm_;
  double drop_path_;
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

struct Settings {
  std::string optimizer = "adaact";
  std::string options = "{}";
  TrainerOptions trainer;
  bool with_norm = false;
  double drop_path = 0.0;  // with ranks that are threads all draw from one generator
  std::int64_t images = kImages;
};

struct Told : adaact::TrainingCallback {
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    steps.push_back(metrics);
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    epochs.push_back(metrics);
  }
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
};

/// Where a training stands, and what was told of it.
struct Outcome {
  bool finished = false;
  Tensors weights;  // and buffers
  adaact::OptimizerState optimizer;
  adaact::TrainerState state;
  Told told;
};

inline LoaderOptions part_of(const adaact::Communicator& ranks) {
  LoaderOptions options;
  options.batch_size = kBatch;
  options.part = ranks.rank();
  options.parts = ranks.size();
  return options;
}

inline std::shared_ptr<adaact::Dataset> images(adaact::Split split, std::int64_t count = kImages) {
  adaact::SyntheticOptions options;
  options.size = count;
  options.split = split;
  options.shape = {1, 8, 8};
  return adaact::make_synthetic(options);
}

inline Outcome trained_by(const std::shared_ptr<adaact::Communicator>& rank,
                          const Settings& settings, const Outcome* from) {
  Loader train(images(adaact::Split::Train, settings.images), part_of(*rank));
  Loader test(images(adaact::Split::Test), part_of(*rank));
  WideModel model(settings.with_norm, settings.drop_path);
  model.to(settings.trainer.device);
  const auto optimizer = adaact::make_optimizer(settings.optimizer, model, settings.options);
  auto options = settings.trainer;
  options.ranks = rank;
  Trainer trainer(model, *optimizer, train, test, options);
  Tensors tensors = model.parameters();
  for (const auto& buffer : model.buffers()) tensors.push_back(buffer);
  if (from != nullptr) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(from->weights[i]);
    dynamic_cast<adaact::HasNamedState&>(*optimizer).import_state(from->optimizer, "before");
    trainer.set_state(from->state);
  }
  Outcome outcome;
  trainer.add_callback(outcome.told);
  outcome.finished = trainer.run();
  for (const auto& tensor : tensors) outcome.weights.push_back(tensor.detach().clone());
  outcome.optimizer = dynamic_cast<adaact::HasNamedState&>(*optimizer).export_state();
  outcome.state = trainer.state();
  return outcome;
}

}  // namespace ranks_training
