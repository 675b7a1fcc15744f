#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <adaact/data/dataset.h>
#include <adaact/data/random_stream.h>
#include <torch/types.h>

namespace adaact {

/// A part of a photograph that is scaled to the size of the images.
struct ResizedCropOptions {
  double smallest = 0.08;  // share of the photograph's area
  double largest = 1.0;
  double narrowest = 3.0 / 4.0;  // width to height, 0.001 to 1000
  double widest = 4.0 / 3.0;
};

/// RandAugment: some of fifteen operations for each image, with a random strength.
struct RandAugmentOptions {
  std::int64_t operations = 2;
  double probability = 0.5;  // that one of them is applied
  double magnitude = 7.0;    // 0 to 10
  double magnitude_std = 0.5;
};

/// What happens to an image on its way into a batch. Normalisation always does; the rest is for
/// training. The default is evaluation.
struct AugmentOptions {
  /// Zero pixels added on each side before a random crop to the old size; 0 for no crop. Zeros of
  /// the image, not of the normalised values.
  std::int64_t crop_padding = 0;
  double flip_probability = 0.0;
  /// A random part, scaled to the image's size, in place of a crop of the padded image.
  std::optional<ResizedCropOptions> resized_crop = std::nullopt;
  std::optional<RandAugmentOptions> rand_augment = std::nullopt;
  /// How often a rectangle of the normalised image becomes noise.
  double erase_probability = 0.0;

  static AugmentOptions training() {
    AugmentOptions options;
    options.crop_padding = 4;
    options.flip_probability = 0.5;
    return options;
  }
  static AugmentOptions evaluation() { return {}; }
};

/// What was decided for one image.
struct AugmentDraw {
  std::int32_t top = 0;  // of the crop, in the padded image
  std::int32_t left = 0;
  bool flip = false;

  /// The draw that leaves an image as it is.
  static AugmentDraw none(const AugmentOptions& options) {
    const auto padding = static_cast<std::int32_t>(options.crop_padding);
    return {padding, padding, false};
  }
};

/// Every decision has its own place in the sample's stream, taken or not, so that one option does
/// not change what another one draws.
ADAACT_HOST_DEVICE inline AugmentDraw draw_augment(const AugmentOptions& options,
                                                   std::uint64_t seed, std::uint32_t epoch,
                                                   std::uint32_t sample) {
  RandomStream stream(seed, RandomPurpose::Augment, epoch, sample);
  const auto positions = static_cast<std::uint32_t>(2 * options.crop_padding + 1);
  AugmentDraw draw;
  draw.top = static_cast<std::int32_t>(stream.below(positions));
  draw.left = static_cast<std::int32_t>(stream.below(positions));
  draw.flip = stream.uniform() < static_cast<float>(options.flip_probability);
  return draw;
}

/// Where an image goes in a batch.
enum class ImageLayout : std::uint8_t { Planes, ChannelsLast };

/// Crops, flips and normalises one image at a time, and checks all options. Immutable once made.
class Augmenter {
 public:
  Augmenter(const ImageShape& shape, const Normalization& normalization,
            const AugmentOptions& options, ImageLayout layout = ImageLayout::Planes);

  const AugmentOptions& options() const { return options_; }
  ImageLayout layout() const { return layout_; }

  /// (C, 256): what a byte of a channel becomes.
  const std::vector<float>& values() const { return values_; }

  /// Writes as many floats as the image has bytes, shape.bytes(), which are planes (C, H, W).
  void apply(const std::uint8_t* pixels, const AugmentDraw& draw, float* out) const;

 private:
  ImageShape shape_;
  AugmentOptions options_;
  ImageLayout layout_;
  std::vector<float> values_;  // (C, 256): the normalised value of every byte, exact
};

/// What Augmenter::apply() makes of one image (C, H, W) kByte, out of LibTorch's own operations: the
/// oracle.
torch::Tensor augment_reference(const torch::Tensor& image, const Normalization& normalization,
                                const AugmentOptions& options, const AugmentDraw& draw);

}  // namespace adaact
