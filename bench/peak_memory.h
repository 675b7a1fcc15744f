#pragma once

#include <cstdint>
#include <functional>

namespace adaact::bench {

/// The most heap memory in use at any moment while `work` runs, beyond what was in use before, in
/// bytes. Counts every malloc of the process, LibTorch's and oneDNN's too, so that the number does
/// not depend on what the heap looked like before, as the resident set does.
std::int64_t peak_bytes(const std::function<void()>& work);

}  // namespace adaact::bench
