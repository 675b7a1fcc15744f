#pragma once

#include <mutex>

namespace adaact {

/// Held while parts of a run are made and while its first steps are taken and captured. Several runs may
/// train at once, but they share LibTorch's settings, its random generator and what it can capture.
inline std::mutex& set_up_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace adaact
