#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include "ranks/mpi_ring_sum.h"
#include "ranks/mpi_tensor_runs.h"

namespace adaact {

/// A sum or a broadcast, which comes nearer to its end whenever advance() is called.
///
/// All ranks first tell one another that they have come, and with what; only then do the numbers move. Waiting for a
/// slow rank, which may take long, thus costs next to no work, and moving, which must be attended to, takes little time.
/// Ranks that did not bring the same are found out before MPI writes past the end of anything.
class MpiCollective {
 public:
  enum class Stage { kTensorsAreMade, kRanksCome, kNumbersMove, kDone };

  /// Only the thread that calls advance() may call anything but this. `are_tensors_made`: whether they may be read yet.
  /// `root`: whose tensors they become; nothing for a sum.
  MpiCollective(MpiTensorRuns runs, std::optional<int> root,
                std::function<bool()> are_tensors_made);
  MpiCollective(const MpiCollective&) = delete;
  MpiCollective& operator=(const MpiCollective&) = delete;

  Stage stage() const { return stage_; }
  std::int64_t bytes() const { return runs_.bytes(); }
  /// What it is, for messages: "a sum of 400 bytes".
  std::string description() const;
  /// The number of pieces in which its numbers move.
  std::int64_t pieces() const { return pieces_; }

  /// Returns whether it has come further. MPI wants everything begun in the same order on all ranks, so it is never a
  /// stage ahead of the one that was begun before it: `stage_of_previous`, or kDone for the first. Throws RankError
  /// where ranks have not brought the same.
  bool advance(Stage stage_of_previous, MpiChannels& channels);

 private:
  void come(MpiChannels& channels);
  void check_that_all_brought_the_same() const;
  void begin_to_move(MpiChannels& channels);
  bool move(MpiChannels& channels);

  MpiTensorRuns runs_;
  std::optional<int> root_;
  std::function<bool()> are_tensors_made_;
  Stage stage_ = Stage::kTensorsAreMade;
  // Three numbers that tell what a rank has brought, and their negatives: first this rank's, then the greatest of all
  // ranks. Where ranks differ, the greatest number is not the negative of the greatest negative.
  static constexpr std::size_t kFeatures = 3;
  std::array<std::int64_t, 2 * kFeatures> brought_{};
  std::vector<MPI_Request> arrival_;
  std::int64_t pieces_ = 0;
  std::vector<MPI_Request> whole_;  // pieces that MPI sums or broadcasts
  struct Waiting {
    MpiRun run;
    int tag;
  };
  std::deque<Waiting> waiting_;  // pieces to be summed round the ring
  std::deque<MpiRingSum> on_the_ring_;
};

}  // namespace adaact
