#pragma once

#include <adaact/data/loader.h>
#include <torch/types.h>

namespace adaact {

/// A batch's images where and how the model wants them.
inline torch::Tensor images_on(torch::Device device, const Batch& batch, bool channels_last) {
  return batch.images.to(device).contiguous(channels_last ? torch::MemoryFormat::ChannelsLast
                                                          : torch::MemoryFormat::Contiguous);
}

}  // namespace adaact
