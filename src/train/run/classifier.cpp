#include <adaact/train/classifier.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include <torch/torch.h>

#include "data/decode_image.h"
#include "data/resample.h"
#include "train/run/trained_model.h"

namespace adaact {
namespace {

/// Files that are classified at once: enough to keep all cores at work, few enough to be in memory together.
constexpr std::ptrdiff_t kFilesAtOnce = 64;

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

/// (N, 1 or 3, H, W) to (N, channels, H, W), in floating point.
torch::Tensor with_channels(const torch::Tensor& images, std::int64_t channels) {
  if (images.size(1) == channels) return images;
  if (channels == 3) return images.expand({-1, 3, -1, -1});
  return 0.299 * images.slice(1, 0, 1) + 0.587 * images.slice(1, 1, 2) +
         0.114 * images.slice(1, 2, 3);
}

/// (3, H, W) or (1, H, W) bytes on the CPU as a picture.
RgbImage as_picture(const torch::Tensor& planes) {
  const auto pixels = planes.expand({3, -1, -1}).permute({1, 2, 0}).contiguous();
  const auto* first = pixels.data_ptr<std::uint8_t>();
  return {planes.size(1), planes.size(2), {first, first + pixels.numel()}};
}

void check_batch(const torch::Tensor& images) {
  TORCH_CHECK(images.defined(), "adaact: images are an undefined tensor, expected (N, C, H, W)");
  TORCH_CHECK(images.dim() == 4 && (images.size(1) == 1 || images.size(1) == 3) &&
                  images.size(2) > 0 && images.size(3) > 0,
              "adaact: images have shape ", images.sizes(),
              ", expected (N, 1 or 3, height, width); unsqueeze(0) makes a batch of one image");
  TORCH_CHECK(images.scalar_type() == torch::kByte || images.is_floating_point(),
              "adaact: images are ", images.scalar_type(),
              ", expected Byte, 0 to 255, or floating-point numbers, 0 to 1");
}

/// The same images, if they are not normalised already.
torch::Tensor in_range(const torch::Tensor& images) {
  if (images.numel() == 0) return images;
  const auto lowest = images.min().item<double>();
  const auto highest = images.max().item<double>();
  // Written so that NaN, which min() and max() pass on, is refused too.
  TORCH_CHECK(lowest >= 0.0 && highest <= 1.0, "adaact: images have values from ", lowest, " to ",
              highest, ", expected 0 to 1; they are normalised here, not before");
  return images;
}

}  // namespace

Classifier::Classifier(const std::filesystem::path& weights, torch::Device device)
    : Classifier(read_trained_model(weights), device) {}

Classifier::Classifier(TrainedModel trained, torch::Device device)
    : card_(std::move(trained.card)),
      model_(std::move(trained.model)),
      normalizer_(card_.data.shape, card_.data.normalization, AugmentOptions::evaluation()),
      device_(device) {
  model_->to(device_);
}

std::int64_t Classifier::resize_size() const {
  return std::max(card_.resize_size, card_.data.shape.height);
}

void Classifier::prepare(const RgbImage& picture, float* input) const {
  const auto& shape = card_.data.shape;
  const auto side = shape.height;
  std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * side * side));
  resize_and_crop(picture, resize_size(), side, planes.data());
  if (shape.channels == 1) planes = to_grey(planes);
  normalizer_.apply(planes.data(), {}, input);
}

torch::Tensor Classifier::prepare(const torch::Tensor& given) const {
  check_batch(given);
  const bool bytes = given.scalar_type() == torch::kByte;
  const auto images = bytes ? given : in_range(given.to(torch::kFloat));
  const auto& shape = card_.data.shape;
  if (images.size(2) == shape.height && images.size(3) == shape.width) {
    const auto values = bytes ? images.to(device_, torch::kFloat) / 255 : images.to(device_);
    return normalised_images(with_channels(values, shape.channels), card_.data.normalization);
  }
  const auto pictures = (bytes ? images : (images * 255).round().to(torch::kByte)).to(torch::kCPU);
  auto inputs = empty_inputs(images.size(0));
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    prepare(as_picture(pictures[i]), inputs[i].data_ptr<float>());
  }
  return inputs.to(device_);
}

torch::Tensor Classifier::empty_inputs(std::int64_t images) const {
  const auto& shape = card_.data.shape;
  return torch::empty({images, shape.channels, shape.height, shape.width});
}

torch::Tensor Classifier::probabilities_of(const torch::Tensor& inputs) const {
  if (inputs.size(0) == 0) {
    return torch::empty({0, static_cast<std::int64_t>(card_.data.class_names.size())});
  }
  return torch::softmax(model_->forward(inputs), 1).to(torch::kCPU);
}

Classifier::Classes Classifier::likeliest(const torch::Tensor& probabilities,
                                          std::size_t most) const {
  const auto count = std::min<std::int64_t>(static_cast<std::int64_t>(most), probabilities.size(0));
  const auto [values, indices] = probabilities.topk(count);
  Classes best;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(indices[i].item<std::int64_t>());
    best.push_back({card_.data.class_names[label], values[i].item<double>()});
  }
  return best;
}

torch::Tensor Classifier::probabilities(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return probabilities_of(prepare(images));
}

std::vector<Classifier::Classes> Classifier::classify(const torch::Tensor& images,
                                                      std::size_t most) const {
  const auto all = probabilities(images);
  std::vector<Classes> results;
  for (std::int64_t i = 0; i < all.size(0); ++i) results.push_back(likeliest(all[i], most));
  return results;
}

std::vector<Classifier::Classes> Classifier::classify(
    const std::vector<std::filesystem::path>& images, std::size_t most) const {
  const torch::NoGradGuard no_grad;
  std::vector<Classes> results;
  for (auto first = images.begin(); first != images.end();) {
    const auto last = first + std::min(kFilesAtOnce, images.end() - first);
    const auto inputs = empty_inputs(last - first);
    for (auto image = first; image != last; ++image) {
      prepare(decode_image(*image, enough_to_resize(resize_size())),
              inputs[image - first].data_ptr<float>());
    }
    const auto all = probabilities_of(inputs.to(device_));
    for (std::int64_t i = 0; i < all.size(0); ++i) results.push_back(likeliest(all[i], most));
    first = last;
  }
  return results;
}

Classifier::Classes Classifier::classify(const std::filesystem::path& image,
                                         std::size_t most) const {
  return classify(std::vector<std::filesystem::path>{image}, most).front();
}

}  // namespace adaact
