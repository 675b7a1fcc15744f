#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>

namespace adaact::testing {

/// A line of /proc/self/status, in bytes.
inline std::int64_t memory_in_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// By how much the memory of the process grew while `action` ran, at most. Under AddressSanitizer, which keeps
/// what was freed for a while, nobody knows: 0.
inline std::int64_t peak_memory_of(const std::function<void()>& action) {
#if defined(__SANITIZE_ADDRESS__)
  action();
  return 0;
#else
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const auto before = memory_in_status("VmHWM");
  action();
  return memory_in_status("VmHWM") - before;
#endif
}

}  // namespace adaact::testing
