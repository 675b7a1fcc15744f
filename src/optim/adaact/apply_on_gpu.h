#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "optim/adaact/plan.h"
#include "optim/adaact/update_cuda.h"

namespace adaact {

/// A plan but for the full covariance, as the kernels take it; nothing where they do not know all of it:
/// parameters elsewhere, layers used in part, layers that were observed and have no gradient. Counts of the
/// states hold `counted` of the steps that the device has accepted.
std::optional<std::vector<AdaActParameter>> describe_for_gpu(const std::vector<PlannedUpdate>& plan,
                                                             std::int64_t counted);

/// Carries it out in a few launches. Counts in the states are settle()'s business.
void apply_on_gpu(std::vector<PlannedUpdate>& plan, const std::vector<AdaActParameter>& updates,
                  const DeviceStep* step);

}  // namespace adaact
