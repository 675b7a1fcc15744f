#include <adaact/data/augment.h>

#include <cmath>

#include <c10/util/Exception.h>

#include "data/crop_and_flip.h"

namespace adaact {
namespace {

void check_share(const char* name, double value) {
  TORCH_CHECK(value >= 0.0 && value <= 1.0, "Augmenter: ", name, " is ", value,
              ", expected [0, 1]");
}

void check(const ResizedCropOptions& options) {
  TORCH_CHECK(
      options.smallest > 0.0 && options.smallest <= options.largest && options.largest <= 1.0,
      "Augmenter: resized_crop takes shares from ", options.smallest, " to ", options.largest,
      ", expected ascending ones in (0, 1]");
  constexpr double kLeastRatio = 1e-3;
  constexpr double kMostRatio = 1e3;
  TORCH_CHECK(options.narrowest >= kLeastRatio && options.narrowest <= options.widest &&
                  options.widest <= kMostRatio,
              "Augmenter: resized_crop takes ratios from ", options.narrowest, " to ",
              options.widest, ", expected ascending ones from ", kLeastRatio, " to ", kMostRatio);
}

void check(const RandAugmentOptions& options, std::int64_t channels) {
  constexpr std::int64_t kMostOperations = 1000;
  TORCH_CHECK(channels == 3, "Augmenter: rand_augment is for images of 3 channels, these have ",
              channels);
  TORCH_CHECK(options.operations >= 0 && options.operations <= kMostOperations,
              "Augmenter: rand_augment does ", options.operations, " operations, expected 0 to ",
              kMostOperations);
  check_share("rand_augment's probability", options.probability);
  TORCH_CHECK(options.magnitude >= 0.0 && options.magnitude <= 10.0,
              "Augmenter: rand_augment's magnitude is ", options.magnitude, ", expected [0, 10]");
  TORCH_CHECK(options.magnitude_std >= 0.0 && std::isfinite(options.magnitude_std),
              "Augmenter: rand_augment's magnitude_std is ", options.magnitude_std,
              ", expected >= 0");
}

}  // namespace

Augmenter::Augmenter(const ImageShape& shape, const Normalization& normalization,
                     const AugmentOptions& options, ImageLayout layout)
    : shape_(shape), options_(options), layout_(layout) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  TORCH_CHECK(normalization.mean.size() == channels && normalization.std.size() == channels,
              "Augmenter: normalization has ", normalization.mean.size(), " means and ",
              normalization.std.size(), " standard deviations, expected ", channels, " of each");
  constexpr std::int64_t kMostPadding = 1 << 16;
  TORCH_CHECK(options.crop_padding >= 0 && options.crop_padding <= kMostPadding,
              "Augmenter: crop_padding is ", options.crop_padding, ", expected 0 to ",
              kMostPadding);
  check_share("flip_probability", options.flip_probability);
  check_share("erase_probability", options.erase_probability);
  if (options.resized_crop) check(*options.resized_crop);
  if (options.rand_augment) check(*options.rand_augment, shape.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    TORCH_CHECK(normalization.std[c] > 0.0F, "Augmenter: std of channel ", c, " is ",
                normalization.std[c], ", expected > 0");
    for (int byte = 0; byte < 256; ++byte) {
      const float pixel = static_cast<float>(byte) / 255.0F;
      values_.push_back((pixel - normalization.mean[c]) / normalization.std[c]);
    }
  }
}

void Augmenter::apply(const std::uint8_t* pixels, const AugmentDraw& draw, float* out) const {
  crop_and_flip(shape_, options_.crop_padding, draw, layout_, values_.data(), pixels, out);
}

torch::Tensor augment_reference(const torch::Tensor& image, const Normalization& normalization,
                                const AugmentOptions& options, const AugmentDraw& draw) {
  const auto padding = options.crop_padding;
  auto result = torch::constant_pad_nd(image, {padding, padding, padding, padding}, 0)
                    .narrow(1, draw.top, image.size(1))
                    .narrow(2, draw.left, image.size(2));
  if (draw.flip) result = result.flip({2});
  const auto channels = [](const std::vector<float>& values) {
    return torch::tensor(values).view({-1, 1, 1});
  };
  return result.to(torch::kFloat)
      .div(255)
      .sub(channels(normalization.mean))
      .div(channels(normalization.std));
}

}  // namespace adaact
