#pragma once

#include <cstdint>
#include <string>

#include "report/mean_and_error.h"

namespace adaact {

// Numbers as a person reads them; "–" for what is not there.

inline constexpr char kNothing[] = "–";

/// 0.8631 as "86.31 %".
std::string percent(double fraction);
/// A number with four decimals; a very large one as a power of ten.
std::string decimal(double value);
/// The same with what a mean may be off by: "86.31 ± 0.12 %", "0.4127 ± 0.0031". Of one measurement the
/// number alone.
std::string percent(const MeanAndError& fraction);
std::string decimal(const MeanAndError& value);
/// A number with so many decimals: 0.333 with two as "0.33".
std::string fixed(double value, int decimals);
/// A number with six digits: 0.0333333.
std::string rounded(double value);
/// "18.6 s", "12 min 04 s", "3 h 20 min".
std::string duration(double seconds);
/// 62006 as "62,006".
std::string grouped(std::int64_t count);

}  // namespace adaact
