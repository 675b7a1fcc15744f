// How long OpenMP's threads spin before they sleep, when they wait for one another.
//
// GNU's OpenMP spins for 5 to 10 ms unless told otherwise. On a machine with other work the thread that is
// waited for may not even be running, and those that spin keep it from running: steps took several times as
// long (docs/benchmarks.md). kSpins are meant to be long enough for the time between the loops of a training step.
//
// OpenMP reads its settings when the program is loaded, before main() and before anything that could set
// them for it. So a command that trains starts itself a second time, with the setting in its environment:
// from .preinit_array, before the libraries are initialised, which takes LibTorch most of the time of a start.
// A user's own setting counts more. Where a C library does without .preinit_array, nothing happens.

#include <climits>
#include <cstddef>
#include <cstring>

#include <unistd.h>

#if defined(__has_feature)
#define ADAACT_HAS_FEATURE(name) __has_feature(name)
#else
#define ADAACT_HAS_FEATURE(name) 0
#endif

// A sanitizer, too, has to be initialised before its program's first line.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !ADAACT_HAS_FEATURE(address_sanitizer) && !ADAACT_HAS_FEATURE(thread_sanitizer)

namespace {

constexpr char kSpins[] = "GOMP_SPINCOUNT=10000";
constexpr std::size_t kMostVariables = 4096;

bool computes_for_long(int count, char** arguments) {
  constexpr const char* kCommands[] = {"train", "sweep", "find-lr", "reproduce", "bench"};
  for (int i = 1; i < count; ++i) {
    for (const auto* command : kCommands) {
      if (std::strcmp(arguments[i], command) == 0) return true;
    }
  }
  return false;
}

bool is_set(const char* name, char** environment) {
  const auto length = std::strlen(name);
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') return true;
  }
  return false;
}

/// The C library is not initialised yet: no getenv(), no memory from the heap.
void start_again_with_few_spins(int count, char** arguments, char** environment) {
  if (!computes_for_long(count, arguments) || is_set("GOMP_SPINCOUNT", environment) ||
      is_set("OMP_WAIT_POLICY", environment)) {
    return;
  }
  char program[PATH_MAX];
  const auto length = ::readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length <= 0) return;
  program[length] = '\0';

  char spins[sizeof(kSpins)];
  std::memcpy(spins, kSpins, sizeof(kSpins));
  char* extended[kMostVariables + 2];
  std::size_t variables = 0;
  for (; environment[variables] != nullptr; ++variables) {
    if (variables == kMostVariables) return;
    extended[variables] = environment[variables];
  }
  extended[variables] = spins;
  extended[variables + 1] = nullptr;
  ::execve(program, arguments, extended);  // if that fails, OpenMP waits as it always did
}

__attribute__((section(".preinit_array"),
               used)) void (*const at_start)(int, char**, char**) = start_again_with_few_spins;

}  // namespace

#endif
