#include "train/interrupt.h"

#include <csignal>

namespace adaact {
namespace {

volatile std::sig_atomic_t received_signal = 0;
struct sigaction previous_interrupt {};
struct sigaction previous_terminate {};

void note_signal(int signal) {
  if (received_signal != 0 && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  received_signal = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
}

int InterruptGuard::received() { return received_signal; }

}  // namespace adaact
