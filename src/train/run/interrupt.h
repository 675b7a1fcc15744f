#pragma once

namespace adaact {

/// While one of these lives, SIGINT and SIGTERM are noted instead of ending the process, unless it was
/// told to ignore them, as a background job is. A second SIGINT ends it at once, for the user who has
/// lost patience. There may be several, on several threads.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that arrived, or 0.
  static int received() noexcept;

  /// Is told of each signal at once, inside its handler: it may do what a signal handler may. `again`: it
  /// is a second SIGINT, after which the process ends.
  using Listener = void (*)(int signal, bool again);
  static void set_listener(Listener listener) noexcept;
};

}  // namespace adaact
