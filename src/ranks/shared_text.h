#pragma once

#include <cstdint>
#include <string>

#include <adaact/ranks/communicator.h>

namespace adaact {

/// The text that rank `root` has, whatever this one has. All ranks ask at a time.
std::string text_of_rank(std::int64_t root, const std::string& own, Communicator& ranks);

}  // namespace adaact
