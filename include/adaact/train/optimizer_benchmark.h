#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <adaact/ranks/communicator.h>

namespace adaact {

struct BenchmarkOptions {
  std::string model = "lenet5";
  std::int64_t batch_size = 128;  // of all ranks together
  std::vector<std::string> optimizers{"adaact", "sgd", "adam"};
  std::map<std::string, std::string>
      options_of;  // by the optimizer's name, as JSON; others have their defaults
  std::string device = "cpu";
  std::string precision = "fp32";  // tf32, bf16
  std::string memory_format = "contiguous";
  bool graph = true;         // on a GPU, for the optimizers that can; not with several ranks
  std::int64_t threads = 0;  // 0: one for each core
  /// How many steps of each optimizer are taken, in five rounds; a round of a graph has at least
  /// 20. FOOF and KFAC invert every 50 steps, so this is a whole period of theirs.
  std::int64_t steps = 50;
  /// Who takes the steps together, each with its part of every batch. All ranks measure at a time, with the same options.
  std::shared_ptr<Communicator> ranks = single_process();
};

/// What statistics and update of a step take, beside the time in which memory can move their bytes.
struct UpdateCost {
  std::int64_t statistics_bytes = 0;  // layers' inputs read, their sums written and read
  std::int64_t update_bytes = 0;      // parameters and state read and written, gradients read
  double floor_ms = 0.0;              // at the rate of a large copy
  /// Whole steps less forward and backward passes alone. Not above 0 where it is lost in their spread.
  double taken_ms = 0.0;

  /// The floor to what was taken; nothing where that is lost in the spread.
  std::optional<double> fraction_of_floor() const {
    return taken_ms > 0.0 ? std::optional(floor_ms / taken_ms) : std::nullopt;
  }
};

/// What it costs that several ranks take an optimizer's steps together. Times are means over steps and ranks.
struct ExchangeCost {
  // What a rank hands over in a step to be added up, however often it travels.
  std::int64_t gradient_bytes = 0;
  std::int64_t statistics_bytes =
      0;  // of what the optimizer has observed, and of factors that ranks hand round
  std::int64_t messages = 0;  // in which the gradients leave
  std::int64_t largest_message_bytes = 0;

  /// Whether the host makes the sums. It sees nothing of those that a GPU makes for itself, as by NCCL: times that are
  /// waited, and what is hidden, are then none.
  bool is_seen_by_host = true;
  double waited_for_gradients_ms = 0.0;   // after the backward pass
  double waited_for_statistics_ms = 0.0;  // in the optimizer's step
  double under_way_ms = 0.0;  // in which any of it was on its way; 0 where ranks are not MPI's
  /// GradientExchangeCost::hidden(), the median of all ranks' steps.
  double hidden = 0.0;

  // What rank 0 takes by itself, on as many images as it has of a batch, without an exchange, while the others wait.
  double alone_ms_per_step = 0.0;
  std::int64_t alone_peak_bytes = 0;
  /// The time per image of rank 0 by itself, to so many times that of all ranks together as they are.
  double efficiency = 0.0;

  double waited_ms() const { return waited_for_gradients_ms + waited_for_statistics_ms; }
  /// The part of the time of the whole exchange, statistics included, in which passes went on; nothing where that time
  /// is not known.
  std::optional<double> hidden_of_all() const {
    return under_way_ms > 0.0 ? std::optional(1.0 - waited_ms() / under_way_ms) : std::nullopt;
  }
};

/// What training a model with an optimizer costs. Batches lie ready: making them is not in it.
struct OptimizerCost {
  std::string optimizer;
  bool graph = false;        // steps were replayed from a CUDA graph
  double ms_per_step = 0.0;  // mean; of a graph's rounds the median
  double lowest_ms = 0.0;    // of the rounds
  double highest_ms = 0.0;
  double ratio_to_sgd = 0.0;
  double images_per_second = 0.0;
  std::int64_t state_bytes = 0;  // that the optimizer keeps from step to step
  std::int64_t peak_bytes = 0;   // tensors of a step: weights, activations, gradients, state
  double peak_ratio_to_sgd = 0.0;
  std::optional<UpdateCost> update;  // of a graph's steps
  std::optional<ExchangeCost>
      exchange;  // of several ranks, whose times and memory are otherwise those of rank 0
};

/// What a GPU takes whatever the optimizer.
struct GpuCost {
  double copy_bytes_per_second = 0.0;  // a large copy, read and written
  double ms_per_batch = 0.0;           // from images on the GPU: shuffled, augmented, laid out
  double batch_images_per_second = 0.0;
  std::optional<double> forward_backward_ms;  // a step without an optimizer, from a graph
};

/// What adding up so many bytes over all ranks takes while none of them computes.
struct SumCost {
  std::int64_t bytes = 0;
  double ms = 0.0;
};

/// What several ranks take whatever the optimizer.
struct RanksCost {
  std::int64_t ranks = 0;
  std::int64_t images_of_first = 0;  // of a batch
  std::vector<SumCost> sums;
};

struct BenchmarkResult {
  std::vector<OptimizerCost> optimizers;
  std::optional<GpuCost> gpu;
  std::optional<RanksCost> ranks;
};

/// Takes steps on a few batches of random images in turn, in rounds that alternate between the
/// optimizers so that a machine whose speed drifts treats all alike. SGD is always measured, as the
/// reference. Several ranks may have to wait for the first for as long as it measures by itself.
BenchmarkResult measure_optimizers(BenchmarkOptions options);

}  // namespace adaact
