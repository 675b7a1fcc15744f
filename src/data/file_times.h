#pragma once

#include <cstdint>
#include <ctime>

namespace adaact {

/// A time of a file's status in nanoseconds since 1970.
inline std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace adaact
