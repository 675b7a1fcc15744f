#pragma once

#include <cstdint>
#include <stdexcept>

namespace adaact {

/// What a step does when a gradient or a statistic is infinite or not a number. Either way nothing
/// changes: neither parameters nor state nor counters.
enum class NonFinitePolicy : std::uint8_t {
  Throw,  // NonFiniteError, which names the parameter
  Skip,   // the step is skipped and counted
};

class NonFiniteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace adaact
