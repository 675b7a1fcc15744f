#include "ranks/mpi_ring_sum.h"

#include <cstddef>

#include "ranks/mpi_calls.h"

namespace adaact {

MpiRingSum::MpiRingSum(const MpiRun& run, MpiChannels& channels, int tag)
    : run_(run), channels_(channels), tag_(tag), last_step_(2 * (channels.size - 1)) {
  const auto largest = (run.count + channels.size - 1) / channels.size;
  received_ = channels.buffers.take(static_cast<std::size_t>(largest * run.bytes_of_one));
  begin_step();
}

bool MpiRingSum::advance() {
  if (is_done() || !all_done(messages_)) return false;
  end_step();
  ++step_;
  if (is_done()) {
    channels_.buffers.give_back(std::move(received_));
  } else {
    begin_step();
  }
  return true;
}

std::pair<void*, int> MpiRingSum::part(int index) const {
  const auto size = channels_.size;
  const auto inside = (index % size + size) % size;
  const auto first = run_.count * inside / size;
  const auto count = run_.count * (inside + 1) / size - first;
  return {static_cast<std::byte*>(run_.data) + first * run_.bytes_of_one, static_cast<int>(count)};
}

void MpiRingSum::begin_step() {
  const auto next = (channels_.rank + 1) % channels_.size;
  const auto previous = (channels_.rank + channels_.size - 1) % channels_.size;
  // What was received in a step is sent in the next.
  const auto [sent, sent_count] = part(channels_.rank - step_);
  const auto [own, count] = part(channels_.rank - step_ - 1);
  void* const to = is_adding() ? static_cast<void*>(received_.memory.get()) : own;
  messages_.assign(2, MPI_REQUEST_NULL);
  check_mpi(MPI_Irecv(to, count, run_.type, previous, tag_, channels_.for_numbers, &messages_[0]),
            "MPI_Irecv");
  check_mpi(
      MPI_Isend(sent, sent_count, run_.type, next, tag_, channels_.for_numbers, &messages_[1]),
      "MPI_Isend");
}

void MpiRingSum::end_step() {
  if (!is_adding()) return;
  const auto [own, count] = part(channels_.rank - step_ - 1);
  check_mpi(MPI_Reduce_local(received_.memory.get(), own, count, run_.type, run_.op),
            "MPI_Reduce_local");
}

}  // namespace adaact
