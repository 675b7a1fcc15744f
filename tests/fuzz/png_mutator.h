#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

struct PngChunk {
  std::string type;  // four letters
  std::string data;
};

/// The chunks of a PNG file as far as they are whole, whatever their checksums.
std::vector<PngChunk> png_chunks(const std::string& bytes);
/// A PNG file with the right lengths and checksums.
std::string png_of(const std::vector<PngChunk>& chunks);

/// Another PNG file: chunks change, come twice, go, or change places; what is compressed in them is changed
/// before it is compressed. Now and then bytes change without regard to any of that.
std::string mutate_png(std::string bytes, std::size_t most, Random& random);

}  // namespace adaact::fuzz
