#pragma once

#include <cstdint>

#include <adaact/data/image_part.h>
#include <adaact/data/loader.h>
#include <adaact/data/philox.h>

namespace adaact {

/// How the images of a batch are mixed with their partners: all over, or in a rectangle.
struct MixDraw {
  bool cut = false;
  PixelBox box;
  double own_share = 1.0;
};

/// What is drawn for a batch of an epoch.
MixDraw draw_mix(const MixOptions& options, std::uint64_t seed, std::uint32_t epoch,
                 std::uint32_t batch, std::int64_t height, std::int64_t width);

/// The mean of two levels, weighted in float32 and rounded to the nearest, halves to even.
ADAACT_HOST_DEVICE inline std::uint8_t mixed_level(int own, int other, float own_share,
                                                   float other_share) {
  constexpr float kNoFraction = 0x1.8p23F;  // floats of this size are whole numbers
  const float mean = static_cast<float>(own) * own_share + static_cast<float>(other) * other_share;
  return static_cast<std::uint8_t>((mean + kNoFraction) - kNoFraction);
}

/// Mixes two partners, planes (C, H, W) both, with one another.
void mix_pair(const MixDraw& draw, const ImageShape& shape, std::uint8_t* one, std::uint8_t* other);

/// Slots are the places of a batch in which partners are neighbours: slot 2·i has image i, slot 2·i + 1 its
/// partner, and of an odd number the last one has the image in the middle, which is its own partner.
constexpr std::int64_t position_of_slot(std::int64_t slot, std::int64_t batch) {
  return slot % 2 == 0 ? slot / 2 : batch - 1 - slot / 2;
}

}  // namespace adaact
