#include "train/run/interrupt.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace adaact {
namespace {

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

std::atomic<InterruptGuard::Listener> signal_listener{nullptr};
static_assert(std::atomic<InterruptGuard::Listener>::is_always_lock_free, "the same");

void note_signal(int signal) {
  const bool again = received_signal.exchange(signal) != 0 && signal == SIGINT;
  if (const auto listener = signal_listener.load()) listener(signal, again);
  if (again) {
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

struct Guards {
  std::mutex mutex;
  int alive = 0;
  struct sigaction previous_interrupt {};
  struct sigaction previous_terminate {};
};

Guards& guards() {
  static Guards instance;
  return instance;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  auto& shared = guards();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (shared.alive++ > 0) return;
  received_signal = 0;
  install(SIGINT, shared.previous_interrupt);
  install(SIGTERM, shared.previous_terminate);
}

InterruptGuard::~InterruptGuard() {
  auto& shared = guards();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (--shared.alive > 0) return;
  sigaction(SIGINT, &shared.previous_interrupt, nullptr);
  sigaction(SIGTERM, &shared.previous_terminate, nullptr);
}

int InterruptGuard::received() noexcept { return received_signal; }

void InterruptGuard::set_listener(Listener listener) noexcept { signal_listener = listener; }

}  // namespace adaact
