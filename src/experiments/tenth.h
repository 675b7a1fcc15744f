#pragma once

#include <algorithm>
#include <cstddef>

namespace adaact {

/// How many epochs are a tenth of a training, where a figure speaks of its beginning or its end: one at
/// least.
inline std::size_t tenth_of(std::size_t epochs) { return std::max<std::size_t>(1, epochs / 10); }

}  // namespace adaact
