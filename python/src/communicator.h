#pragma once

#include <memory>

#include <adaact/ranks/communicator.h>

#include "binding.h"

namespace adaact::python {

/// Ranks that add up tensors by functions of Python's: `begin_sum(tensors)` returns a function that waits,
/// `broadcast(tensors, root)` is done when it returns.
std::shared_ptr<Communicator> communicator_of(std::int64_t rank, std::int64_t size,
                                              py::function begin_sum, py::function broadcast);

}  // namespace adaact::python
