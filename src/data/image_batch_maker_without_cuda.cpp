#include "data/image_batch_maker.h"

#include "kernels/without_cuda.h"

namespace adaact {

std::unique_ptr<ImageBatchMaker> image_batch_maker_cuda(const ImageBatchFormat& /*format*/,
                                                        torch::Device /*device*/) {
  throw_without_cuda("making images on a GPU");
}

}  // namespace adaact
