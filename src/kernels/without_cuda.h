#pragma once

#include <c10/util/Exception.h>

namespace adaact {

/// For the files *_without_cuda.cpp, which stand in for what only a build with CUDA has.
[[noreturn]] inline void throw_without_cuda(const char* what) {
  TORCH_CHECK(false, "adaact: ", what, " needs a build with CUDA");
}

}  // namespace adaact
