#pragma once

#include <cstdint>

namespace adaact {

/// What training lowers. Tests report cross entropy either way.
enum class Loss : std::uint8_t {
  CrossEntropy,       // of the softmax, in the mean over the images
  BinaryCrossEntropy  // of a sigmoid for each class, in the mean over images and classes
};

}  // namespace adaact
