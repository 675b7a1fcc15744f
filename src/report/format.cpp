#include "report/format.h"

#include <cmath>
#include <cstdio>

namespace adaact {
namespace {

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char result[64];
  std::snprintf(result, sizeof(result), format, values...);
  return result;
}

}  // namespace

std::string percent(double fraction) {
  return std::isfinite(fraction) ? formatted("%.2f %%", 100.0 * fraction) : kNothing;
}

std::string decimal(double value) {
  if (!std::isfinite(value)) return kNothing;
  return formatted(std::abs(value) < 1e4 ? "%.4f" : "%.2e", value);
}

std::string percent(const MeanAndError& fraction) {
  if (!std::isfinite(fraction.mean) || !std::isfinite(fraction.standard_error)) {
    return percent(fraction.mean);
  }
  return formatted("%.2f ± %.2f %%", 100.0 * fraction.mean, 100.0 * fraction.standard_error);
}

std::string decimal(const MeanAndError& value) {
  if (!std::isfinite(value.mean) || !std::isfinite(value.standard_error)) {
    return decimal(value.mean);
  }
  return decimal(value.mean) + " ± " + decimal(value.standard_error);
}

std::string fixed(double value, int decimals) {
  return std::isfinite(value) ? formatted("%.*f", decimals, value) : kNothing;
}

std::string rounded(double value) {
  return std::isfinite(value) ? formatted("%g", value) : kNothing;
}

std::string duration(double seconds) {
  constexpr double kLongest = 1e12;
  if (!(seconds >= 0.0 && seconds < kLongest)) return kNothing;
  if (seconds < 99.95) return formatted("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return formatted("%lld min %02lld s", whole / 60, whole % 60);
  const auto minutes = std::llround(seconds / 60.0);
  return formatted("%lld h %02lld min", minutes / 60, minutes % 60);
}

std::string grouped(std::int64_t count) {
  auto digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (auto at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace adaact
