#pragma once

#include <cstddef>
#include <string>

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

/// Another safetensors file: strings, values, shapes, types and names change, and its length and checksum
/// are right again, without which no input would get beyond them. Now and then bytes change without any of
/// that.
std::string mutate_tensor_file(std::string bytes, std::size_t most, Random& random);

}  // namespace adaact::fuzz
