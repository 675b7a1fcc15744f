#pragma once

#include <cstdint>

namespace adaact {

/// The quotient of two positive numbers, rounded up.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace adaact
