#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <adaact/data/augment.h>
#include <adaact/data/image_part.h>
#include <adaact/data/random_stream.h>

namespace adaact {

/// A side of a rectangle, as torchvision rounds it.
ADAACT_HOST_DEVICE inline std::int64_t whole_pixels(double side) {
  return static_cast<std::int64_t>(std::nearbyint(side));
}

/// A rectangle of random size in a random place, from four words; its height is 0 where it would not fit.
ADAACT_HOST_DEVICE inline PixelBox box_of_words(const PhiloxBlock& random, std::int64_t height,
                                                std::int64_t width, double smallest, double largest,
                                                double narrowest, double widest) {
  const double share =
      smallest +
      (largest - smallest) * static_cast<double>(RandomStream::uniform_of(random.words[0]));
  const double least = std::log(narrowest);
  const double ratio =
      std::exp(least + (std::log(widest) - least) *
                           static_cast<double>(RandomStream::uniform_of(random.words[1])));
  const double area = share * static_cast<double>(height) * static_cast<double>(width);
  PixelBox box;
  box.height = whole_pixels(std::sqrt(area / ratio));
  box.width = whole_pixels(std::sqrt(area * ratio));
  if (box.height > height || box.width > width || box.height == 0 || box.width == 0) return {};
  box.top =
      RandomStream::below_of(random.words[2], static_cast<std::uint32_t>(height - box.height + 1));
  box.left =
      RandomStream::below_of(random.words[3], static_cast<std::uint32_t>(width - box.width + 1));
  return box;
}

/// The middle of an image, as much of it as the ratios allow.
ADAACT_HOST_DEVICE inline PixelBox middle_of(const ResizedCropOptions& options, std::int64_t height,
                                             std::int64_t width) {
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  PixelBox box{0, 0, height, width};
  if (ratio < options.narrowest) {
    box.height = whole_pixels(static_cast<double>(width) / options.narrowest);
  } else if (ratio > options.widest) {
    box.width = whole_pixels(static_cast<double>(height) * options.widest);
  }
  box.height = box.height < 1 ? 1 : box.height;
  box.width = box.width < 1 ? 1 : box.width;
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

/// Which part of a sample is seen in an epoch: the first of ten tries that fits, or else its middle.
ADAACT_HOST_DEVICE inline ImagePart draw_resized_crop(const ResizedCropOptions& options,
                                                      std::uint64_t seed, std::uint32_t epoch,
                                                      std::uint32_t sample, std::int64_t height,
                                                      std::int64_t width) {
  constexpr std::uint32_t kTries = 10;
  const RandomStream stream(seed, RandomPurpose::ResizedCrop, epoch, sample);
  ImagePart part;
  for (std::uint32_t i = 0; i < kTries && part.box.height == 0; ++i) {
    part.box = box_of_words(stream.block(i), height, width, options.smallest, options.largest,
                            options.narrowest, options.widest);
  }
  if (part.box.height == 0) part.box = middle_of(options, height, width);
  const bool bicubic = RandomStream::below_of(stream.block(kTries).words[0], 2) == 1;
  part.filter = bicubic ? ResampleFilter::Bicubic : ResampleFilter::Bilinear;
  return part;
}

}  // namespace adaact
