#pragma once

#include <cstdint>
#include <vector>

#include <adaact/data/dataset.h>
#include <adaact/data/random_stream.h>
#include <torch/types.h>

namespace adaact {

/// What happens to an image on its way into a batch. Normalisation always does; the rest is for
/// training. The default is evaluation.
struct AugmentOptions {
  /// Zero pixels added on each side before a random crop to the old size; 0 for no crop. Zeros of
  /// the image, not of the normalised values.
  std::int64_t crop_padding = 0;
  double flip_probability = 0.0;

  static AugmentOptions training() { return {4, 0.5}; }
  static AugmentOptions evaluation() { return {}; }
};

/// What was decided for one image.
struct AugmentDraw {
  std::int32_t top = 0;  // of the crop, in the padded image
  std::int32_t left = 0;
  bool flip = false;
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

/// Crops, flips and normalises one image at a time. Immutable once made.
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

/// What an Augmenter makes of one image (C, H, W) kByte, out of LibTorch's own operations: the
/// oracle.
torch::Tensor augment_reference(const torch::Tensor& image, const Normalization& normalization,
                                const AugmentOptions& options, const AugmentDraw& draw);

}  // namespace adaact
