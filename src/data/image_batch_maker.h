#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/data/augment.h>
#include <torch/types.h>

#include "data/image_batch_plan.h"

namespace adaact {

/// What becomes of the bytes of a batch, whatever is drawn for it.
struct ImageBatchFormat {
  ImageShape shape;
  torch::Tensor values;  // (C, 256), of the images' type: what a byte of a channel becomes
  ImageLayout layout = ImageLayout::Planes;
  std::uint64_t seed = 0;
};

/// Takes the steps of ImageSteps for all images of a batch at once, where its memory is, with the same pixels as a
/// Loader's but for the noise of what is erased: a GPU's logarithms and sines are not a CPU's.
class ImageBatchMaker {
 public:
  virtual ~ImageBatchMaker() = default;
  ImageBatchMaker(const ImageBatchMaker&) = delete;
  ImageBatchMaker& operator=(const ImageBatchMaker&) = delete;

  /// Scales sources, each of pixels (H, W, 3) one behind the other, and puts them in their places among the images,
  /// bytes (B, 3, H, W).
  virtual void scale(const torch::Tensor& sources, std::vector<ScalePlan> plans,
                     const torch::Tensor& images) const = 0;

  /// RandAugment, mixing, normalisation and erasing of images, bytes (B, C, H, W), which may be changed by it.
  virtual torch::Tensor finish(torch::Tensor bytes, const ImageBatchPlan& plan) const = 0;

 protected:
  ImageBatchMaker() = default;
};

/// Element after element on the CPU: what the other one is compared with.
std::unique_ptr<ImageBatchMaker> image_batch_maker_reference(const ImageBatchFormat& format);

/// Enqueues all on the current stream and waits for nothing.
std::unique_ptr<ImageBatchMaker> image_batch_maker_cuda(const ImageBatchFormat& format,
                                                        torch::Device device);

}  // namespace adaact
