#include <adaact/train/classifier.h>

#include <algorithm>
#include <utility>

#include <adaact/models/weights.h>
#include <torch/torch.h>

#include "data/decode_image.h"
#include "data/resample.h"
#include "io/error_text.h"

namespace adaact {
namespace {

/// (3, side, side) to (1, side, side): luminance as in ITU-R BT.601.
std::vector<std::uint8_t> to_grey(const std::vector<std::uint8_t>& rgb) {
  const auto size = rgb.size() / 3;
  std::vector<std::uint8_t> grey(size);
  for (std::size_t i = 0; i < size; ++i) {
    grey[i] = static_cast<std::uint8_t>(
        (299 * rgb[i] + 587 * rgb[size + i] + 114 * rgb[2 * size + i] + 500) / 1000);
  }
  return grey;
}

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

Classifier::Classifier(const std::filesystem::path& weights, torch::Device device)
    : Classifier(TensorFile::read(weights), weights.string(), device) {}

Classifier::Classifier(TensorFile weights, const std::string& source, torch::Device device)
    : card_(checked_card(weights, source)),
      model_(card_.build()),
      normalizer_(card_.data.shape, card_.data.normalization, AugmentOptions::evaluation()),
      device_(device) {
  load_weights(*model_, std::move(weights), source);
  model_->to(device_);
  model_->eval();
}

torch::Tensor Classifier::prepare(const std::filesystem::path& image) const {
  const auto& shape = card_.data.shape;
  const auto side = shape.height;
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * side * side));
  const auto resize = std::max(card_.resize_size, side);
  resize_and_crop(decode_image(image, enough_to_resize(resize)), resize, side, planes.data());
  if (shape.channels == 1) planes = to_grey(planes);
  auto input = torch::empty({1, shape.channels, side, side});
  normalizer_.apply(planes.data(), {}, input.data_ptr<float>());
  return input.to(device_);
}

std::vector<ClassProbability> Classifier::classify(const std::filesystem::path& image,
                                                   std::size_t most) const {
  const torch::NoGradGuard no_grad;
  const auto probabilities = torch::softmax(model_->forward(prepare(image))[0], 0).to(torch::kCPU);
  const auto count = std::min<std::int64_t>(static_cast<std::int64_t>(most), probabilities.size(0));
  const auto [values, indices] = probabilities.topk(count);
  std::vector<ClassProbability> best;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(indices[i].item<std::int64_t>());
    best.push_back({card_.data.class_names[label], values[i].item<double>()});
  }
  return best;
}

}  // namespace adaact
