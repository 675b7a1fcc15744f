#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// An error after which ranks cannot go on: one of them died, does not answer or does not fit the others. It says
/// which.
class RankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How the processes that train one model together, its ranks, add up tensors. Every rank makes the same calls in the
/// same order. Makers: single_process(), and where the build has them mpi_communicator() and nccl_communicator(); a
/// program that has an all-reduce of its own derives from this class, and need not care for more than what is pure
/// virtual.
///
/// Calls come from one thread at a time, though not always from the same.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;

  /// A sum that is under way.
  class Pending {
   public:
    virtual ~Pending() = default;
    /// From now on the tensors are the sums: for the host, or on a GPU for the current stream. Throws RankError.
    virtual void wait() = 0;
  };

  /// Each tensor becomes its sum over the ranks, and has the same bits on all of them. The tensors are contiguous, of
  /// any dtype of numbers, on the CPU or on a GPU, and have the same sizes, dtypes and kinds of device on every rank.
  /// Until wait() nobody else may read or write them. All ranks wait for their sums in the same order.
  virtual std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) = 0;

  /// Each tensor, as for begin_sum(), becomes that of the root.
  virtual void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) = 0;

  /// Returns when all ranks have called it.
  virtual void barrier();

  /// What each rank said, by rank.
  virtual std::vector<std::string> gather(const std::string& text);

  /// A rank's name for messages, such as "rank 3 (node7)".
  virtual std::string describe(std::int64_t rank) const;

  /// Whether sums of tensors on a GPU are enqueued in the order of its current stream, where a CUDA graph can capture
  /// them. Sums of tensors on the CPU are made at once in any case.
  virtual bool can_be_captured() const { return false; }

  /// Waits for the current stream of a GPU as reading a tensor would, but not for ever where another rank keeps it
  /// waiting: throws RankError then. For those whose sums can be captured, of which the host sees nothing.
  virtual void wait_for_stream() {}

  /// Whether a sum leaves everything as it is, so that none need be made.
  virtual bool is_alone() const { return size() == 1; }

  /// begin_sum() and wait() in one call.
  void sum(std::vector<torch::Tensor> tensors) { begin_sum(std::move(tensors))->wait(); }

  bool is_first() const { return rank() == 0; }
};

/// One rank, which is the whole world.
std::shared_ptr<Communicator> single_process();

/// Throws RankError on every rank, naming the first that differs, unless all ranks say the same. `what`: "the model's
/// parameters"; the lines of the texts are compared one by one, so that the message can be short.
void check_same_on_all_ranks(Communicator& ranks, const std::string& what, const std::string& text);

}  // namespace adaact
