#pragma once

#include <torch/types.h>

namespace adaact {

/// While one lives, layers of this thread take their plain path, also where there is a fused one: to compare
/// the two.
class PlainLayers {
 public:
  PlainLayers() { ++count(); }
  ~PlainLayers() { --count(); }
  PlainLayers(const PlainLayers&) = delete;
  PlainLayers& operator=(const PlainLayers&) = delete;

  static bool are_wanted() { return count() > 0; }

 private:
  static int& count() {
    thread_local int guards = 0;
    return guards;
  }
};

/// Whether there may be a fused path for this input: on a GPU, and not where TorchScript writes down what the
/// plain path does.
bool may_be_fused(const torch::Tensor& input);

}  // namespace adaact
