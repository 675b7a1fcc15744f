#pragma once

#include <cstddef>
#include <string>

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

std::string gzipped(const std::string& bytes);

/// Other content in a gzip file, packed again, or other bytes of a plain one; now and then a file is packed,
/// or its bytes change whether it is packed or not.
std::string mutate_maybe_gzip(std::string bytes, std::size_t most, Random& random);

/// The content of a zlib or gzip stream as far as it can be unpacked, but no more than `most` bytes.
std::string unpacked(const std::string& bytes, std::size_t most);
/// A zlib stream.
std::string packed(const std::string& bytes);

}  // namespace adaact::fuzz
