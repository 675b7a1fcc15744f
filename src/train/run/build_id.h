#pragma once

#include <string>

namespace adaact {

/// What the linker has called this build of the program, or of the library that adaact was linked into: a checksum of
/// all that is in it, in hexadecimal digits. "unknown" where it has not called it anything.
std::string build_id();

}  // namespace adaact
