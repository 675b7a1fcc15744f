#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/models/model.h>
#include <adaact/ranks/gradient_exchange.h>
#include <adaact/train/optimizer_benchmark.h>
#include <torch/optim/optimizer.h>

#include "train/bench/metered_ranks.h"

namespace adaact {

/// Makes the steps of a workload those of all ranks, and measures what that takes.
class MeasuredExchange {
 public:
  /// All ranks begin with the weights of the first.
  MeasuredExchange(Model& model, torch::optim::Optimizer& optimizer,
                   const std::shared_ptr<Communicator>& ranks);

  /// To be called after each backward pass: brings the exchange of its gradients to an end.
  void finish();

  /// Forgets the steps so far, of which the first have also settled what is to be sent.
  void forget_first_steps();

  /// Rounds begin on all ranks at a time. Between them nothing is exchanged here.
  void begin_round();
  void end_round(std::int64_t steps);

  /// What the exchange has cost all ranks, which must ask together. What only a rank by itself can tell is not in it.
  ExchangeCost cost() const;

 private:
  const std::shared_ptr<Communicator> ranks_;
  const std::shared_ptr<MeteredRanks> for_gradients_;
  const std::shared_ptr<MeteredRanks> for_statistics_;
  GradientExchange exchange_;
  std::int64_t steps_ = 0;
  std::vector<double> hidden_;   // of each exchange of gradients
  double seconds_waited_ = 0.0;  // for gradients
  double seconds_under_way_ = 0.0;
  double under_way_before_round_ = 0.0;
};

/// How many images of a batch a rank has.
std::int64_t images_of_rank(std::int64_t batch_size, std::int64_t rank, std::int64_t ranks);

/// What a sum over all ranks takes while none of them computes. All ranks measure at a time.
std::vector<SumCost> measure_sums(Communicator& ranks, torch::Device device);

}  // namespace adaact
