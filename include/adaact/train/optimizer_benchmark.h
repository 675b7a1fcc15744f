#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace adaact {

struct BenchmarkOptions {
  std::string model = "lenet5";
  std::int64_t batch_size = 128;
  std::vector<std::string> optimizers{"adaact", "sgd", "adam"};
  std::string device = "cpu";
  std::string precision = "fp32";  // tf32, bf16
  std::string memory_format = "contiguous";
  bool graph = true;         // on a GPU, for the optimizers that can
  std::int64_t threads = 0;  // 0: one for each core
  /// How many steps of each optimizer are taken, in five rounds; a round of a graph has at least
  /// 20. FOOF and KFAC invert every 50 steps, so this is a whole period of theirs.
  std::int64_t steps = 50;
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
};

/// What a GPU takes whatever the optimizer.
struct GpuCost {
  double copy_bytes_per_second = 0.0;  // a large copy, read and written
  double ms_per_batch = 0.0;           // from images on the GPU: shuffled, augmented, laid out
  double batch_images_per_second = 0.0;
  std::optional<double> forward_backward_ms;  // a step without an optimizer, from a graph
};

struct BenchmarkResult {
  std::vector<OptimizerCost> optimizers;
  std::optional<GpuCost> gpu;
};

/// Takes steps on a few batches of random images in turn, in rounds that alternate between the
/// optimizers so that a machine whose speed drifts treats all alike. SGD is always measured, as the
/// reference.
BenchmarkResult measure_optimizers(BenchmarkOptions options);

}  // namespace adaact
