#include "train/run/trained_model.h"

#include <utility>
#include <vector>

#include <adaact/models/weights.h>
#include <torch/torch.h>

#include "io/error_text.h"

namespace adaact {
namespace {

/// What the weights say about themselves, if their tensors can be those of such a model. Asked before it is
/// made: a few bytes can ask for more memory than there is.
ModelCard checked_card(const TensorFile& weights, const std::string& source) {
  const auto card = ModelCard::from_metadata(weights.metadata, source);
  TORCH_CHECK(card.data.shape.channels == 1 || card.data.shape.channels == 3, "adaact: ", source,
              " is for images of ", card.data.shape.channels, " channels, expected 1 or 3");
  std::int64_t needed = 0;
  try {
    needed = least_parameters(card.model, card.options());
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: what ", source,
                " says about its model cannot be followed: ", error_text_within_line(error));
  }
  std::int64_t there = 0;
  for (const auto& [name, tensor] : weights.tensors) there += tensor.numel();
  TORCH_CHECK(needed <= there, "adaact: ", source, " says that it is ", card.model, " for ",
              card.data.class_names.size(), " classes and images of height ",
              card.data.shape.height, ", which has ", needed, " numbers at least, but holds ",
              there);
  return card;
}

}  // namespace

TrainedModel read_trained_model(const std::filesystem::path& weights) {
  auto file = read_weights(weights);
  TrainedModel trained{checked_card(file, weights.string()), nullptr};
  trained.model = trained.card.build();
  load_weights(*trained.model, std::move(file), weights.string());
  trained.model->eval();
  return trained;
}

torch::Tensor normalised_images(const torch::Tensor& images, const Normalization& normalization) {
  std::vector<torch::Tensor> channels;
  for (std::size_t i = 0; i < normalization.mean.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const auto channel = images.slice(1, at, at + 1);
    channels.push_back((channel - normalization.mean[i]) / normalization.std[i]);
  }
  return torch::cat(channels, 1);
}

}  // namespace adaact
