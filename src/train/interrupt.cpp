#include "train/interrupt.h"

#include <atomic>

namespace adaact {
namespace {

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

void note_signal(int signal) {
  const bool second = received_signal.exchange(signal) != 0;
  if (second && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

void install(int signal, struct sigaction& previous) {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, &previous);
  if (previous.sa_handler == SIG_IGN) sigaction(signal, &previous, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal = 0;
  install(SIGINT, previous_interrupt_);
  install(SIGTERM, previous_terminate_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

int InterruptGuard::received() noexcept { return received_signal; }

}  // namespace adaact
