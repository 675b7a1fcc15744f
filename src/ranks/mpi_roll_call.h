#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include <mpi.h>

namespace adaact {

/// What ranks tell one another beside the sums: whether they are there, and what makes them give up. Messages are so
/// small that neither side ever waits for the other.
class MpiRollCall {
 public:
  /// They stand where a rank would say how many collectives it has begun: kSilent for one that has not answered,
  /// kHasEnded for one that will begin no more.
  static constexpr std::int64_t kSilent = -1;
  static constexpr std::int64_t kHasEnded = -2;

  /// `ranks` serves nothing else meanwhile.
  explicit MpiRollCall(MPI_Comm ranks);

  /// Answers the questions of others, and takes note of their answers and failures. `begun`: how many collectives this
  /// rank has begun.
  void listen(std::int64_t begun);

  /// Asks all others how many collectives they have begun.
  void ask();
  bool have_all_answered() const;
  /// A sentence about the ranks for which those wait that have begun so many collectives, by the answers so far; empty
  /// if all have begun as many. `names`: of all ranks. `time`: how long they were waited for. `call`: the collective
  /// that waits for them.
  std::string who_is_missing(std::int64_t begun, const std::vector<std::string>& names,
                             const std::string& time, const std::string& call) const;

  /// Tells all others why this rank gives up, and with it the whole training.
  void announce(const std::string& failure);
  /// Why another rank has given up; empty where none has.
  const std::string& announced() const { return announced_; }

  /// Whether what was said has left this rank.
  bool is_all_sent();

 private:
  enum class Kind : std::int64_t { kQuestion, kAnswer, kFailure };
  struct Message {
    Kind kind;
    std::int64_t
        question;  // the number of a rank's question, so that a late answer is not taken for one to the next
    std::int64_t begun;
    std::array<char, 1000> text;
  };
  struct Sent {
    Message message;
    MPI_Request request;
  };
  void send(int rank, const Message& message);

  const MPI_Comm ranks_;
  int rank_ = 0;
  int size_ = 0;
  std::int64_t question_ = 0;
  std::vector<std::int64_t> answers_;
  std::string announced_;
  std::list<Sent> sent_;  // MPI reads them where they are until they have left
};

}  // namespace adaact
