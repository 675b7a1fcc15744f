#pragma once

#include <cstdint>

#include <adaact/data/philox.h>

namespace adaact {

/// What random numbers are for. Two purposes never share a number, so a new use of randomness does
/// not change the others. The values are part of what makes a run repeatable: never renumber them.
enum class RandomPurpose : std::uint32_t {
  Shuffle = 1,
  Augment = 2,
  DropPath = 3,
  Mix = 4,
  Synthesize = 5,
  Validation = 6,
  Sweep = 7,
  ResizedCrop = 8,
  RandAugment = 9,
  Erase = 10,
};

/// The random numbers that belong to one sample in one epoch, for one purpose: Philox blocks with
/// the seed as the key and (purpose, epoch, sample, draw) as the counter.
class RandomStream {
 public:
  ADAACT_HOST_DEVICE RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint32_t epoch,
                                  std::uint32_t sample)
      : key_{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}},
        purpose_(static_cast<std::uint32_t>(purpose)),
        epoch_(epoch),
        sample_(sample) {}

  /// Words 4·draw to 4·draw + 3 of the stream, wherever next() stands.
  ADAACT_HOST_DEVICE PhiloxBlock block(std::uint32_t draw) const {
    return philox4x32_10({{purpose_, epoch_, sample_, draw}}, key_);
  }

  ADAACT_HOST_DEVICE std::uint32_t next() {
    const std::uint32_t lane = taken_ % 4;
    if (lane == 0) current_ = block(taken_ / 4);
    ++taken_;
    return current_.words[lane];
  }

  /// A whole number in [0, bound): the upper half of word · bound. Rejection would remove the last
  /// bias but make the number of words drawn depend on their values, and threads of a GPU diverge.
  /// Each probability is off by less than 2⁻³², which for a crop among 9 is 1 part in 480 million.
  ADAACT_HOST_DEVICE std::uint32_t below(std::uint32_t bound) { return below_of(next(), bound); }
  ADAACT_HOST_DEVICE static std::uint32_t below_of(std::uint32_t word, std::uint32_t bound) {
    return static_cast<std::uint32_t>((std::uint64_t{word} * bound) >> 32);
  }

  /// In [0, 1): the upper 24 bits, all that a float holds, so that 1 is never reached by rounding.
  ADAACT_HOST_DEVICE float uniform() { return uniform_of(next()); }
  ADAACT_HOST_DEVICE static float uniform_of(std::uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1p-24F;
  }

 private:
  PhiloxKey key_;
  std::uint32_t purpose_;
  std::uint32_t epoch_;
  std::uint32_t sample_;
  std::uint32_t taken_ = 0;
  PhiloxBlock current_{};
};

}  // namespace adaact
