#pragma once

#include <adaact/ranks/mpi.h>

namespace adaact::testing {

/// The ranks of this MPI program, which mpi_main.cpp holds.
inline Communicator& ranks() { return *mpi_communicator(); }

}  // namespace adaact::testing
