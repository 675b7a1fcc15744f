#pragma once

namespace adaact {

/// While one of these lives, SIGINT and SIGTERM are noted instead of ending the process. A second
/// SIGINT ends it at once, for the user who has lost patience.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that arrived, or 0.
  static int received();
};

}  // namespace adaact
