#pragma once

#include <memory>

#include <adaact/observe/observer.h>
#include <adaact/train/metrics.h>

#include "moments/accumulator.h"

namespace adaact {

/// Measures E[a²] of the input of every layer while it lives, whatever the optimizer.
class ActivationProbe {
 public:
  explicit ActivationProbe(torch::nn::Module& model);

  /// What was seen so far.
  SecondMoments take();

 private:
  LayerMap model_;
  std::shared_ptr<MomentAccumulator> accumulator_;
  Observer observer_;
};

}  // namespace adaact
