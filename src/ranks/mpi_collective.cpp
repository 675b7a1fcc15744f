#include "ranks/mpi_collective.h"

#include <algorithm>
#include <utility>

#include "ranks/mpi_calls.h"

namespace adaact {
namespace {

/// The bytes of a rank's part of a piece that is summed round the ring. With smaller parts a sum takes longer.
constexpr std::int64_t kBytesOfPart = std::int64_t{512} << 10;
/// Where a rank's part has fewer bytes than this, MPI sums the piece itself: the time of a small sum is that of its
/// messages, one after the other, and MPI needs the fewest.
constexpr std::int64_t kLeastBytesOfPart = std::int64_t{16} << 10;
/// So many pieces go round the ring at a time, so that the numbers of one are added while others are on their way.
constexpr std::size_t kPiecesOnTheRing = 4;
/// The bytes of a piece that MPI sums or broadcasts itself. MPI counts numbers by an int, so a piece must not be large.
constexpr std::int64_t kBytesOfWhole = std::int64_t{2} << 20;

/// The tags of messages are below this number, which every MPI allows.
constexpr int kTags = 32768;

}  // namespace

MpiCollective::MpiCollective(MpiTensorRuns runs, std::optional<int> root,
                             std::function<bool()> are_tensors_made)
    : runs_(std::move(runs)), root_(root), are_tensors_made_(std::move(are_tensors_made)) {}

std::string MpiCollective::description() const {
  return (root_ ? "a broadcast of " : "a sum of ") + std::to_string(bytes()) + " bytes";
}

bool MpiCollective::advance(Stage stage_of_previous, MpiChannels& channels) {
  switch (stage_) {
    case Stage::kTensorsAreMade:
      if (stage_of_previous == Stage::kTensorsAreMade || !are_tensors_made_()) return false;
      come(channels);
      stage_ = Stage::kRanksCome;
      return true;
    case Stage::kRanksCome:
      if (stage_of_previous <= Stage::kRanksCome || !all_done(arrival_)) return false;
      check_that_all_brought_the_same();
      begin_to_move(channels);
      stage_ = Stage::kNumbersMove;
      return true;
    case Stage::kNumbersMove: {
      const bool has_moved = move(channels);
      if (!waiting_.empty() || !on_the_ring_.empty() || !all_done(whole_)) return has_moved;
      runs_.unpack(channels.buffers);
      stage_ = Stage::kDone;
      return true;
    }
    case Stage::kDone:
      return false;
  }
  return false;
}

void MpiCollective::come(MpiChannels& channels) {
  std::uint64_t layout = 0;  // equal for equal runs in the same order, and hardly ever for others
  for (const auto& run : runs_.runs()) {
    layout = 1000003 * (1000003 * layout + static_cast<std::uint64_t>(run.count)) +
             static_cast<std::uint64_t>(MPI_Type_c2f(run.type));
  }
  const std::array<std::int64_t, kFeatures> features{root_.value_or(-1), runs_.bytes(),
                                                     static_cast<std::int64_t>(layout >> 1)};
  for (std::size_t i = 0; i < kFeatures; ++i) {
    brought_[i] = features[i];
    brought_[kFeatures + i] = -features[i];
  }
  arrival_.resize(1);
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, brought_.data(), static_cast<int>(brought_.size()),
                           MPI_INT64_T, MPI_MAX, channels.for_arrivals, arrival_.data()),
            "MPI_Iallreduce");
  runs_.pack(channels.buffers);
}

void MpiCollective::check_that_all_brought_the_same() const {
  const auto differ = [&](std::size_t i) { return brought_[i] != -brought_[kFeatures + i]; };
  if (differ(0)) {
    throw RankError(
        "the ranks do not make the same calls in the same order: one begins a sum or a broadcast "
        "of a root"
        " where another begins something else");
  }
  if (differ(1)) {
    throw RankError("the ranks do not hand over the same tensors: one has " +
                    std::to_string(brought_[1]) + " bytes where another has " +
                    std::to_string(-brought_[kFeatures + 1]));
  }
  if (differ(2)) {
    throw RankError("the ranks do not hand over the same tensors: their dtypes or sizes differ");
  }
}

void MpiCollective::begin_to_move(MpiChannels& channels) {
  for (const auto& run : runs_.runs()) {
    const bool on_the_ring = !root_ && channels.size > 1 &&
                             run.count * run.bytes_of_one >= kLeastBytesOfPart * channels.size;
    const auto most =
        (on_the_ring ? kBytesOfPart * channels.size : kBytesOfWhole) / run.bytes_of_one;
    for (std::int64_t first = 0; first < run.count; first += most) {
      ++pieces_;
      auto piece = run;
      piece.data = static_cast<std::byte*>(run.data) + first * run.bytes_of_one;
      piece.count = std::min(most, run.count - first);
      if (on_the_ring) {
        channels.next_tag = (channels.next_tag + 1) % kTags;
        waiting_.push_back({piece, channels.next_tag});
        continue;
      }
      whole_.push_back(MPI_REQUEST_NULL);
      const auto count = static_cast<int>(piece.count);
      if (root_) {
        check_mpi(
            MPI_Ibcast(piece.data, count, run.type, *root_, channels.for_numbers, &whole_.back()),
            "MPI_Ibcast");
      } else {
        check_mpi(MPI_Iallreduce(MPI_IN_PLACE, piece.data, count, run.type, run.op,
                                 channels.for_numbers, &whole_.back()),
                  "MPI_Iallreduce");
      }
    }
  }
}

/// Returns whether anything on the ring has come further.
bool MpiCollective::move(MpiChannels& channels) {
  bool has_moved = false;
  for (auto& sum : on_the_ring_) has_moved = sum.advance() || has_moved;
  while (!on_the_ring_.empty() && on_the_ring_.front().is_done()) on_the_ring_.pop_front();
  while (!waiting_.empty() && on_the_ring_.size() < kPiecesOnTheRing) {
    on_the_ring_.emplace_back(waiting_.front().run, channels, waiting_.front().tag);
    waiting_.pop_front();
  }
  return has_moved;
}

}  // namespace adaact
