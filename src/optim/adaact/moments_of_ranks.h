#pragma once

#include <functional>
#include <vector>

#include "moments/accumulator.h"
#include "ranks/shared_sums.h"

namespace adaact {

/// What all ranks have observed since the last step. `own` says what this one has; what it throws is thrown on all.
std::vector<PendingMoment> moments_of_ranks(SharedSums& ranks,
                                            const std::function<std::vector<PendingMoment>()>& own);

}  // namespace adaact
