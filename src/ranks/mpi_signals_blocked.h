#pragma once

#include <csignal>

namespace adaact {

/// While this lives, threads that are started leave signals to the others, but for those of their own mistakes.
class MpiSignalsBlocked {
 public:
  MpiSignalsBlocked() {
    sigset_t signals;
    sigfillset(&signals);
    for (const int of_a_mistake : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
      sigdelset(&signals, of_a_mistake);
    }
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~MpiSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  MpiSignalsBlocked(const MpiSignalsBlocked&) = delete;
  MpiSignalsBlocked& operator=(const MpiSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace adaact
