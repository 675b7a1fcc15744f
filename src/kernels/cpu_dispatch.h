#pragma once

// A loop written once and compiled twice: for AVX2 with fused multiply-add, and for the baseline of
// the target. Debian compiles for 2003's x86-64, so the choice is made when the program runs.
// (GCC's target_clones would do the same, but its resolvers run before the sanitizers are ready.)

#if defined(__GNUC__) && defined(__x86_64__)
#define ADAACT_HAS_AVX2_VERSION 1
#define ADAACT_AVX2 __attribute__((target("avx2,fma")))
#else
#define ADAACT_HAS_AVX2_VERSION 0
#endif

#define ADAACT_LOOP_BODY inline __attribute__((always_inline))

namespace adaact {

#if ADAACT_HAS_AVX2_VERSION

inline bool cpu_has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has;
}

template <typename Loop, typename... Arguments>
ADAACT_AVX2 void run_avx2(Arguments... arguments) {
  Loop::run(arguments...);
}

/// Calls Loop::run (which must be ADAACT_LOOP_BODY) in the best version this CPU has.
template <typename Loop, typename... Arguments>
void run_vectorized(Arguments... arguments) {
  if (cpu_has_avx2()) {
    run_avx2<Loop>(arguments...);
  } else {
    Loop::run(arguments...);
  }
}

#else

template <typename Loop, typename... Arguments>
void run_vectorized(Arguments... arguments) {
  Loop::run(arguments...);
}

#endif

}  // namespace adaact
