#pragma once

#include <torch/csrc/jit/runtime/interpreter.h>

namespace adaact {

/// Whether the operator under way is one of a TorchScript function's, on whichever thread it runs.
inline bool is_run_by_torchscript() { return !torch::jit::currentCallstack().empty(); }

}  // namespace adaact
