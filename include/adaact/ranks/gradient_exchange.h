#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/ranks/communicator.h>
#include <torch/nn/module.h>
#include <torch/types.h>

namespace adaact {

struct GradientExchangeOptions {
  enum class Reduction : std::uint8_t {
    Mean,  // each rank's loss is the mean over a batch of its own, and all of these are equally large
    Sum,  // each rank's loss is its share of the whole batch's; gradients must be cleared after each finish()
  };
  Reduction reduction = Reduction::Mean;

  /// The most bytes of one message; a larger parameter is a message of its own. Models that are smaller than eight of
  /// these are sent in about eight, so that the first can leave early.
  std::int64_t bucket_bytes = 25 << 20;

  /// An error that names the field, its value and what was expected.
  void check() const;
};

/// What one exchange took, as this rank's host saw it.
struct GradientExchangeCost {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;       // that this rank handed over
  double seconds = 0.0;         // from the beginning of the first message to the end of the last
  double seconds_waited = 0.0;  // those of them that were spent in finish()

  /// The part of the time in which the backward pass went on.
  double hidden() const { return seconds > 0.0 ? 1.0 - seconds_waited / seconds : 0.0; }
};

/// Adds up the gradients of all ranks while the backward pass still runs, in any program and for any optimizer:
///
///   adaact::share_parameters(*model, *ranks);
///   adaact::GradientExchange exchange(*model, ranks);
///   …
///   loss.backward();
///   exchange.finish();  // from here on the gradients are those of all ranks
///   optimizer.step();
///
/// Gradients leave in messages of several parameters, those registered last first, as soon as a backward pass has made
/// all of a message. What is added to gradients after finish() would be added up together with them, which are all ranks'
/// already, when the next exchange comes: passes that accumulate are held back by hold() until the last. Every rank calls finish() as often as the others, even where it has no gradients to give. A
/// parameter has a gradient then if it has one on any rank; ranks without give zeros. With Reduction::Mean gradients
/// are divided by the number of all ranks.
///
/// Until finish() returns nobody may read or write the gradients. It leaves new tensors in their place, those of one
/// message in the same memory, so that an exchange needs no more than one message's memory on top of the gradients'.
/// They are numbers without a graph, whatever create_graph was. Sparse gradients are an error.
///
/// Parameters that are frozen when this is made are left alone, and must stay frozen. Those that are frozen later, or
/// not used by a pass, may keep messages after theirs waiting for finish(). A message is complete only once all ranks
/// have begun it, so ranks cannot go on after a backward pass or a finish() that threw on one of them. Where backward
/// passes make sums of their own with the same communicator, as synchronized normalisation does, those of all ranks
/// must come to the same parameters: otherwise messages and sums would not have the same order.
///
/// On a GPU this must be made on the stream that the backward passes will run on: LibTorch adds to gradients on the
/// stream that was current here. It waits for the device nowhere, and a CUDA graph can hold a backward pass and its
/// finish() where Communicator::can_be_captured().
///
/// One rank alone costs nothing and changes nothing.
class GradientExchange {
 public:
  /// Throws RankError on all ranks unless the parameters of all have the same names, shapes and dtypes, and the options
  /// are the same.
  GradientExchange(const torch::nn::Module& model, std::shared_ptr<Communicator> ranks,
                   const GradientExchangeOptions& options = {});
  /// For what is no torch::nn::Module, such as script_parameters() of a TorchScript module.
  GradientExchange(const std::vector<std::pair<std::string, torch::Tensor>>& parameters,
                   std::shared_ptr<Communicator> ranks,
                   const GradientExchangeOptions& options = {});
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;
  GradientExchange(GradientExchange&&) = delete;
  GradientExchange& operator=(GradientExchange&&) = delete;

  /// Backward passes send nothing while one of these lives.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<std::atomic<int>> holders);
    ~Hold();
    Hold(Hold&&) noexcept = default;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    Hold& operator=(Hold&&) = delete;

   private:
    std::shared_ptr<std::atomic<int>> holders_;
  };
  /// To be held in all but the last of the backward passes whose gradients are accumulated, and in a pass that comes
  /// to a parameter more than once, as checkpointing does with weights that several of its segments share.
  [[nodiscard]] Hold hold() const;

  /// Sends what is left and waits for all of it. Throws RankError.
  void finish();

  /// What the exchange took that the last finish() ended.
  GradientExchangeCost last_cost() const;

 private:
  class State;

  const std::shared_ptr<std::atomic<int>> holders_;
  std::unique_ptr<State> state_;  // none where there is one rank
};

/// Gives all ranks the parameters and buffers of rank 0. Throws RankError on all ranks unless their names, shapes and
/// dtypes are the same.
void share_parameters(torch::nn::Module& model, Communicator& ranks);

}  // namespace adaact
