#pragma once

#include <cmath>
#include <cstdint>

#include <adaact/data/random_stream.h>

namespace adaact {

struct NormalPair {
  float first;
  float second;
};

/// Two independent numbers of the standard normal distribution, by Box and Muller.
ADAACT_HOST_DEVICE inline NormalPair normal_pair(std::uint32_t word1, std::uint32_t word2) {
  constexpr float kFullTurn = 6.283185307179586F;
  const float uniform = (static_cast<float>(word1) + 0.5F) * 0x1p-32F;  // in (0, 1]
  const float radius = std::sqrt(-2.0F * std::log(uniform));
  const float angle = kFullTurn * RandomStream::uniform_of(word2);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace adaact
