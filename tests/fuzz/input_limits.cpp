#include "fuzz/input_limits.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>

#include <sanitizer/allocator_interface.h>

namespace adaact::fuzz {
namespace {

constexpr std::int64_t kMostNanoseconds = 1'000'000'000;

// What is held now and was held at most since the input began; allocations of all threads.
std::atomic<bool> counting{false};
std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> most_held{0};
std::atomic<std::int64_t> most_allowed{0};

std::int64_t slowest = 0;
std::int64_t largest = 0;

std::int64_t processor_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void on_allocation(const volatile void* /*block*/, std::size_t size) {
  if (!counting) return;
  const auto now = held += static_cast<std::int64_t>(size);
  if (now > most_held) most_held = now;
  if (now <= most_allowed) return;
  counting = false;
  report_bug("the input takes " + std::to_string(now) + " bytes of memory, expected at most " +
             std::to_string(most_allowed));
}

void on_release(const volatile void* block) {
  if (!counting || block == nullptr) return;
  held -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(block)));
}

}  // namespace

InputLimits::InputLimits(std::size_t input_bytes, const MemoryAllowance& allowance)
    : begin_(processor_time()) {
  held = 0;
  most_held = 0;
  most_allowed = static_cast<std::int64_t>(allowance.bytes + allowance.times_input * input_bytes);
  counting = true;
}

InputLimits::~InputLimits() {
  counting = false;
  const auto took = processor_time() - begin_;
  if (took > kMostNanoseconds) {
    report_bug("the input takes " + std::to_string(took / 1'000'000) +
               " ms of the processor, expected at most 1000");
  }
  slowest = std::max(slowest, took);
  largest = std::max(largest, most_held.load());
}

void InputLimits::install() {
  __sanitizer_install_malloc_and_free_hooks(on_allocation, on_release);
}

void InputLimits::print_largest() {
  std::fprintf(stderr, "stat::slowest_input_ms: %.1f\nstat::largest_input_kib: %lld\n",
               static_cast<double>(slowest) / 1e6, static_cast<long long>(largest / 1024));
}

}  // namespace adaact::fuzz
