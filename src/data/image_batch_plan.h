#pragma once

#include <cstdint>
#include <vector>

#include <adaact/data/augment.h>
#include <adaact/data/image_part.h>

#include "data/image_operations.h"
#include "data/mix_images.h"
#include "data/rand_augment.h"
#include "data/resample_arithmetic.h"

namespace adaact {

/// What one place of RandAugment does to an image.
struct OperationPlan {
  bool applied = false;
  ImageOperation operation = ImageOperation::AutoContrast;
  ResampleFilter filter = ResampleFilter::Bilinear;
  double argument = 0.0;
  AffineMap map{};  // of a geometric operation
};

OperationPlan plan_operation(const OperationDraw& draw, const ImageShape& shape);

/// An image that is still to be scaled to the size of all.
struct ScalePlan {
  std::int64_t image = 0;   // its place in the batch
  std::int64_t source = 0;  // where its pixels (height, width, 3) begin
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;  // where its rows, scaled along x, are put
  ResampleFilter filter = ResampleFilter::Bilinear;
  bool mirrored = false;
};

/// What is drawn for the images of a batch. The host draws: logarithms and sines of a GPU are not those of a CPU.
struct ImageBatchPlan {
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> samples;     // (images)
  std::vector<OperationPlan> operations;  // (places, images)
  std::vector<PixelBox> erased;           // (images); empty where nothing is ever erased
  bool mixed = false;
  MixDraw mix;

  std::int64_t images() const { return static_cast<std::int64_t>(samples.size()); }
  std::int64_t places() const {
    return samples.empty() ? 0 : static_cast<std::int64_t>(operations.size() / samples.size());
  }
};

/// Of a batch with these samples; how it is mixed is left open.
ImageBatchPlan plan_images(const AugmentOptions& options, const ImageShape& shape,
                           std::uint64_t seed, std::uint32_t epoch,
                           std::vector<std::uint32_t> samples);

}  // namespace adaact
