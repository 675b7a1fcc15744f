#pragma once

#include <adaact/report/run_history.h>

namespace adaact {

/// Whether one run is a copy of the other, or its repetition to the bit: either is no further sample of what
/// the setting comes to. What else their folders hold, and how an older version wrote it, does not matter.
bool are_same_sample(const RunHistory& one, const RunHistory& other);

}  // namespace adaact
