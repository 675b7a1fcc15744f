#pragma once

#include <vector>

#include "optim/adaact/plan.h"
#include "ranks/shared_sums.h"

namespace adaact {

/// AdaAct with the full covariance of a layer's input in place of its diagonal. The host decides when its
/// inverse power is computed anew; all that changes from step to step is sent to the device, so that
/// apply() is the same work in every step.
class FullCovariance {
 public:
  /// A_t of the layers that were observed, and its inverse power where it is due: all of them on this rank, or its
  /// share of them where the ranks divide the work. Whatever fails leaves all of them as they were, and fails on all
  /// ranks.
  static void move_covariances(std::vector<PlannedUpdate>& plan, SharedSums* ranks);

  /// Makes M where there is none yet and sends the numbers of this step.
  void prepare(std::vector<PlannedUpdate>& plan);
  /// All memory that apply() reads and writes, but for gradients.
  std::vector<const void*> memory(const std::vector<PlannedUpdate>& plan) const;
  void apply(const std::vector<PlannedUpdate>& plan) const;

 private:
  torch::Tensor scalars_;  // (parameters with M, 3) float64, where they are
};

}  // namespace adaact
