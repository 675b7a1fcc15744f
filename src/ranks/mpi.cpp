#include <adaact/ranks/mpi.h>

#include <cstdlib>

namespace adaact {

bool started_by_mpirun() {
  // Open MPI's mpirun; MPICH's and Intel's; PMIx, which srun and newer starters speak. Slurm's own variables are of no
  // use: a batch script that starts a program without srun has them too.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return false;
}

}  // namespace adaact
