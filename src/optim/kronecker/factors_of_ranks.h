#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <adaact/optim/factored_optimizer.h>

#include "optim/kronecker/factor_listener.h"
#include "ranks/shared_sums.h"

namespace adaact {

/// What all ranks have observed since the last step. `own` says what this one has; what it throws is thrown on all.
/// `due`: the layers that were to be measured, which all ranks know.
///
/// Gradients of a layer's output are those of the mean loss over the samples of all ranks, as in micro-batches, so
/// their sums, rows and samples add up to those of one batch.
std::vector<FactorSums> sums_of_ranks(SharedSums& ranks,
                                      const std::function<std::vector<FactorSums>()>& own,
                                      const std::vector<bool>& due);

/// Factors of a weight that are to be inverted anew.
struct DueFactors {
  std::size_t weight = 0;
  KroneckerFactors* factors = nullptr;
};

/// Each rank inverts its share, the largest factors first, and hands round what was computed. `due` is the same on all
/// ranks. What `invert` throws on one of them is thrown on all.
void invert_on_ranks(SharedSums& ranks, const std::vector<DueFactors>& due,
                     const std::function<void(const DueFactors&)>& invert);

}  // namespace adaact
