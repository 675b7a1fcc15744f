#include "ranks/mpi_roll_call.h"

#include <algorithm>

#include "ranks/mpi_calls.h"

namespace adaact {

MpiRollCall::MpiRollCall(MPI_Comm ranks) : ranks_(ranks) {
  check_mpi(MPI_Comm_rank(ranks_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(ranks_, &size_), "MPI_Comm_size");
}

void MpiRollCall::listen(std::int64_t begun) {
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, ranks_, &is_there, &status), "MPI_Iprobe");
    if (is_there == 0) break;
    Message message;
    check_mpi(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, 0, ranks_,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    switch (message.kind) {
      case Kind::kQuestion:
        send(status.MPI_SOURCE, {Kind::kAnswer, message.question, begun, {}});
        break;
      case Kind::kAnswer:
        if (message.question == question_) {
          answers_[static_cast<std::size_t>(status.MPI_SOURCE)] = message.begun;
        }
        break;
      case Kind::kFailure:
        if (announced_.empty()) announced_ = message.text.data();
        break;
    }
  }
  is_all_sent();
}

void MpiRollCall::ask() {
  ++question_;
  answers_.assign(static_cast<std::size_t>(size_), kSilent);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(rank, {Kind::kQuestion, question_, 0, {}});
  }
}

bool MpiRollCall::have_all_answered() const {
  return std::count(answers_.begin(), answers_.end(), kSilent) <= 1;
}

std::string MpiRollCall::who_is_missing(std::int64_t begun, const std::vector<std::string>& names,
                                        const std::string& time, const std::string& call) const {
  // Ranks that have begun less may themselves wait for one that is silent, or that has begun even less.
  auto fewest = begun;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) fewest = std::min(fewest, answers_[static_cast<std::size_t>(rank)]);
  }
  if (fewest == begun) return "";
  constexpr int kMostNames = 8;
  std::string missing;
  int count = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    if (rank == rank_ || answers_[i] != fewest) continue;
    if (++count <= kMostNames) missing += (count > 1 ? ", " : "") + names[i];
  }
  if (count > kMostNames) missing += " and " + std::to_string(count - kMostNames) + " more";
  if (fewest == kHasEnded) return missing + " came to an end before the others";
  if (fewest == kSilent) {
    return missing + " did not answer for " + time + ", and others wait in " + call;
  }
  return missing + " did not come within " + time + " to " + call +
         ": busy with something else, or stuck";
}

void MpiRollCall::announce(const std::string& failure) {
  Message message{Kind::kFailure, 0, 0, {}};
  failure.copy(message.text.data(), message.text.size() - 1);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(rank, message);
  }
}

bool MpiRollCall::is_all_sent() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int has_left = 0;
    check_mpi(MPI_Test(&sent->request, &has_left, MPI_STATUS_IGNORE), "MPI_Test");
    sent = has_left != 0 ? sent_.erase(sent) : std::next(sent);
  }
  return sent_.empty();
}

void MpiRollCall::send(int rank, const Message& message) {
  sent_.push_back({message, MPI_REQUEST_NULL});
  check_mpi(MPI_Isend(&sent_.back().message, sizeof message, MPI_BYTE, rank, 0, ranks_,
                      &sent_.back().request),
            "MPI_Isend");
}

}  // namespace adaact
