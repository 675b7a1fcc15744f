#pragma once

#include <filesystem>
#include <memory>

#include <adaact/train/model_card.h>

namespace adaact {

/// A model with its trained weights, on the CPU and in evaluation mode.
struct TrainedModel {
  ModelCard card;
  std::shared_ptr<Model> model;
};

/// Reads weights that a training run wrote. They say which model they are for; what cannot be so is an error
/// before a model is made.
TrainedModel read_trained_model(const std::filesystem::path& weights);

/// (N, C, H, W) of values in [0, 1] → what the model was trained on: (pixel − mean)/std of each channel. With
/// numbers instead of tensors, so that it works on any device when it is part of an exported module.
torch::Tensor normalised_images(const torch::Tensor& images, const Normalization& normalization);

}  // namespace adaact
