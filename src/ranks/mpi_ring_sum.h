#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <mpi.h>

#include "ranks/mpi_buffers.h"
#include "ranks/mpi_tensor_runs.h"

namespace adaact {

/// How this rank reaches the others, and what its collectives share.
struct MpiChannels {
  MPI_Comm for_arrivals = MPI_COMM_NULL;
  MPI_Comm for_numbers = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int next_tag = 0;  // counts on all ranks alike
  MpiBuffers buffers;
};

/// A sum of which each of N ranks adds one N-th: the parts go round the ring of ranks, each rank adding its own numbers
/// to the part that passes, and once more round to be copied. A rank sends 2(N-1)/N times the numbers, which is the
/// least that is possible, and all ranks copy what one has added, so they have the same bits.
///
/// MPI's own sums that go on in the background send all numbers log N times and take new memory for each.
class MpiRingSum {
 public:
  MpiRingSum(const MpiRun& run, MpiChannels& channels, int tag);
  MpiRingSum(MpiRingSum&&) = default;
  MpiRingSum& operator=(MpiRingSum&&) = delete;

  /// Returns whether it has come further.
  bool advance();
  bool is_done() const { return step_ == last_step_; }

 private:
  /// Address and number of a part's numbers; the parts before the first and after the last are those round the ring.
  std::pair<void*, int> part(int index) const;
  bool is_adding() const { return step_ < channels_.size - 1; }
  void begin_step();
  void end_step();

  MpiRun run_;
  MpiChannels& channels_;
  int tag_;
  int step_ = 0;
  int last_step_;
  MpiBuffers::Buffer received_;
  std::vector<MPI_Request> messages_;
};

}  // namespace adaact
