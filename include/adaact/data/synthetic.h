#pragma once

#include <cstdint>
#include <memory>

#include <adaact/data/dataset.h>

namespace adaact {

struct SyntheticOptions {
  std::int64_t size = 1000;
  std::int64_t classes = 10;
  ImageShape shape{3, 32, 32};
  Split split = Split::Train;
  std::uint64_t seed = 0;
};

/// Images that a model can learn to tell apart: each class has a coarse pattern, each image is its
/// class's pattern under noise. The splits share the patterns and differ in the noise. Image i is
/// of class i mod classes and does not depend on the size.
std::shared_ptr<ImageTensorDataset> make_synthetic(const SyntheticOptions& options);

}  // namespace adaact
