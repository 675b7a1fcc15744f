#pragma once

#include <cstdint>

#include <adaact/data/augment.h>
#include <adaact/data/image_part.h>
#include <adaact/data/random_stream.h>

#include "data/normal_pair.h"
#include "data/resized_crop.h"

namespace adaact {

// The words of a sample's stream: a block for whether it is erased, one for each try to place the
// rectangle, and then four values of noise a block.
constexpr std::uint32_t kEraseTries = 10;
constexpr std::uint32_t kEraseNoise = 1 + kEraseTries;

/// The rectangle of a sample that becomes noise in an epoch; empty where none does. Smaller than the image
/// both ways.
ADAACT_HOST_DEVICE inline PixelBox draw_erasing(double probability, std::uint64_t seed,
                                                std::uint32_t epoch, std::uint32_t sample,
                                                std::int64_t height, std::int64_t width) {
  constexpr double kSmallest = 0.02;  // share of the area
  constexpr double kLargest = 1.0 / 3.0;
  constexpr double kNarrowest = 0.3;
  const RandomStream stream(seed, RandomPurpose::Erase, epoch, sample);
  PixelBox box;
  if (RandomStream::uniform_of(stream.block(0).words[0]) >= static_cast<float>(probability)) {
    return box;
  }
  for (std::uint32_t i = 0; i < kEraseTries && box.height == 0; ++i) {
    box = box_of_words(stream.block(1 + i), height, width, kSmallest, kLargest, kNarrowest,
                       1.0 / kNarrowest);
    if (box.height == height || box.width == width) box = {};
  }
  return box;
}

/// Values 4·i to 4·i + 3 of the noise in a rectangle, in the order (C, H, W).
ADAACT_HOST_DEVICE inline void erasing_noise(const RandomStream& stream, std::uint32_t i,
                                             float* values) {
  const auto random = stream.block(kEraseNoise + i);
  const auto first = normal_pair(random.words[0], random.words[1]);
  const auto second = normal_pair(random.words[2], random.words[3]);
  values[0] = first.first;
  values[1] = first.second;
  values[2] = second.first;
  values[3] = second.second;
}

/// Erases what is drawn for a sample in an epoch from a normalised image.
void erase_randomly(double probability, std::uint64_t seed, std::uint32_t epoch,
                    std::uint32_t sample, const ImageShape& shape, ImageLayout layout,
                    float* image);

}  // namespace adaact
