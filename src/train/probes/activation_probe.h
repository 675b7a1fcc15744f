#pragma once

#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/observer.h>
#include <adaact/train/metrics.h>

#include "moments/accumulator.h"

namespace adaact {

/// E[a²] of several layers, still where it was computed.
struct MomentReadings {
  std::vector<std::string> layers;
  torch::Tensor means;  // (layers) float64

  SecondMoments read() const;
};

/// Measures E[a²] of the input of every layer while it lives, whatever the optimizer.
class ActivationProbe {
 public:
  explicit ActivationProbe(torch::nn::Module& model);

  /// The means of what was seen so far, which are then forgotten.
  SecondMoments take() { return take_on_device().read(); }
  /// What take() gives, still on the device: nobody waits for it.
  MomentReadings take_on_device();

 private:
  LayerMap model_;
  std::shared_ptr<MomentAccumulator> accumulator_;
  Observer observer_;
};

}  // namespace adaact
