#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <adaact/ranks/communicator.h>

namespace adaact {

/// Whether this build has MPI. Without it mpi_communicator() throws, and says so.
bool has_mpi();

/// Whether mpirun, srun or another starter of MPI programs has started this process as one of its ranks; by what it
/// has left in the environment, so without MPI as well.
bool started_by_mpirun();

struct MpiOptions {
  /// How long a sum or a broadcast may take, from its beginning on this rank to its end. That is above all the wait for
  /// the slowest rank, which may compute, read or write meanwhile: it must be less than this behind the others. Time in
  /// which the whole job is suspended does not count. Where all ranks have come in this time, the numbers have as long once
  /// more to move. That all ranks start may take a minute longer than this.
  std::chrono::duration<double> timeout = std::chrono::seconds(20);
};

/// The ranks of this MPI program. A thread of the communicator's own makes all calls of MPI, so that sums go on while
/// the caller computes; programs that use MPI themselves cannot use it.
///
/// Sums: numbers of 16 bits are added in float32 and rounded once, booleans become whether any rank's is true. Tensors
/// of a GPU travel through host memory. Tensors of one list travel together, so a list is better than many sums.
///
/// A rank that dies, stops or is late for longer than `timeout` makes every other rank throw a RankError that names it,
/// from wait() or from the next call; from then on each call throws the same. Such a process should end with
/// abort_all_ranks() or at least with an exit code other than 0, which makes mpirun end all others.
///
/// There is one in a process: while it lives, a second call returns the same and does not look at the options; after
/// its end the call throws, because MPI cannot be started again. A rank that lets go of it waits for all others to do
/// so too, however long they take.
std::shared_ptr<Communicator> mpi_communicator(const MpiOptions& options = {});

/// Ends this process and all other ranks, at once and without any destructor.
[[noreturn]] void abort_all_ranks(int exit_code);

/// What this process has sent through its MPI communicator so far, and how long it took.
struct MpiTraffic {
  std::int64_t bytes = 0;     ///< handed over to be summed or broadcast, whatever MPI makes of it
  std::int64_t messages = 0;  ///< in so many pieces
  double seconds_busy = 0;    ///< in which a sum or a broadcast was under way
  double seconds_moving = 0;  ///< of these, those after all ranks had come
  double seconds_waited = 0;  ///< in which the caller waited, and did not compute meanwhile
};
MpiTraffic mpi_traffic();

}  // namespace adaact
