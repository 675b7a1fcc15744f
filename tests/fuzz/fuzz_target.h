#pragma once

// What a reader of files needs to be fuzzed; fuzz_main.cpp does the rest.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace adaact::fuzz {

/// Part of the name under which every input is read. An error must have it: it has to say which file is
/// bad.
inline const std::string kInputName = "fuzz_input";

/// A valid file, from which libFuzzer starts.
struct Seed {
  std::string name;
  std::string bytes;
};

using Random = std::minstd_rand;

/// Memory that reading may take at once, beside what LibTorch and the reader hold anyway.
struct MemoryAllowance {
  std::size_t bytes = std::size_t{4} << 20;
  std::size_t times_input = 64;
};

struct FuzzTarget {
  std::string name;
  /// Reads the input as a user's file. It may throw c10::Error, as the readers do where a file is bad;
  /// anything else that leaves it is a bug.
  void (*read)(const std::string& bytes);
  std::vector<Seed> (*seeds)();
  /// Another input of at most `most` bytes made from this one. Null: bytes are changed without regard to
  /// the format, which is what mutate_bytes() does.
  std::string (*mutate)(std::string bytes, std::size_t most, Random& random) = nullptr;
  MemoryAllowance allowance = {};
  /// False where the text that is read has no name.
  bool errors_name_input = true;
};

/// All of them, in the order of docs/reliability.md.
const std::vector<FuzzTarget>& fuzz_targets();

/// What libFuzzer does with bytes that it knows nothing about.
std::string mutate_bytes(std::string bytes, std::size_t most);

/// True once in `count` times.
inline bool once_in(std::uint32_t count, Random& random) { return random() % count == 0; }

/// Ends the program with this message, by which libFuzzer keeps the input.
[[noreturn]] void report_bug(const std::string& message);

/// report_bug() where something that must hold does not.
inline void require(bool holds, const char* message) {
  if (!holds) report_bug(message);
}

}  // namespace adaact::fuzz
