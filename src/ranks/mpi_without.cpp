#include <adaact/ranks/mpi.h>

#include <cstdio>
#include <cstdlib>

namespace adaact {

bool has_mpi() { return false; }

std::shared_ptr<Communicator> mpi_communicator(const MpiOptions& /*options*/) {
  throw RankError(
      "this build of adaact has no MPI: install libopenmpi-dev and openmpi-bin, and build it again "
      "with "
      "-DADAACT_MPI=ON");
}

void abort_all_ranks(int exit_code) {
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

MpiTraffic mpi_traffic() { return MpiTraffic(); }

}  // namespace adaact
