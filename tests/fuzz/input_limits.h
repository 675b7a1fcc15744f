#pragma once

#include <cstddef>
#include <cstdint>

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

/// What one input may take while this lives: a second of the processor and the memory that its size
/// explains. More is a bug.
///
/// Time is the processor's because a busy machine would otherwise make hangs of nothing. Sanitizers take two
/// to five times as long as a release, so a second here is less than half of one there. An input that waits
/// without working is found by libFuzzer's own -timeout.
class InputLimits {
 public:
  InputLimits(std::size_t input_bytes, const MemoryAllowance& allowance);
  ~InputLimits();
  InputLimits(const InputLimits&) = delete;
  InputLimits& operator=(const InputLimits&) = delete;

  /// To be called once, before any input.
  static void install();
  /// The most that any input took, for the table of scripts/fuzz.sh.
  static void print_largest();

 private:
  std::int64_t begin_;  // ns
};

}  // namespace adaact::fuzz
