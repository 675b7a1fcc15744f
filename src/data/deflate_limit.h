#pragma once

#include <cstdint>

namespace adaact {

/// How much deflate, and with it gzip and PNG, can make of one byte: a run of 258 bytes takes 2 bits. What
/// a header announces beyond that is not in the file.
inline constexpr std::int64_t kBestDeflateRatio = 1032;

}  // namespace adaact
