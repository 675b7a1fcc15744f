#pragma once

#include <adaact/data/device_batches.h>
#include <adaact/data/loader.h>

namespace adaact {

/// A loader's batches from the memory of a GPU. float32 whatever the precision of the model, so that the
/// first layer sees what it sees without a graph.
inline DeviceBatches device_batches_of(const Loader& loader, torch::Device device,
                                       bool channels_last) {
  const auto& of_loader = loader.options();
  DeviceBatches::Options options;
  options.batch_size = of_loader.batch_size;
  options.shuffle = of_loader.shuffle;
  options.drop_last = of_loader.drop_last;
  options.seed = of_loader.seed;
  options.augment = of_loader.augment;
  options.channels_last = channels_last;
  return DeviceBatches(loader.dataset(), options, device);
}

}  // namespace adaact
