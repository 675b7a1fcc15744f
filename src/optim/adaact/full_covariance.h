#pragma once

#include <adaact/optim/adaact.h>

namespace adaact {

/// ((Â + δI)ᵖ + εI)⁻¹, computed anew at the first and then every refresh_period-th observation of a
/// segment, and otherwise the one given.
torch::Tensor refreshed_preconditioner(const torch::Tensor& preconditioner,
                                       const RowMoments& moments, const AdaActOptions& options);

}  // namespace adaact
