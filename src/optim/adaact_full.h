#pragma once

#include <adaact/optim/adaact.h>

namespace adaact {

/// Recomputes ((Â + δI)ᵖ + εI)⁻¹ at the first and then every refresh_period-th observation.
void refresh_preconditioner(AdaActParamState& state, const AdaActOptions& options);

}  // namespace adaact
