#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adaact {

struct BenchmarkOptions {
  std::string model = "lenet5";
  std::int64_t batch_size = 128;
  std::vector<std::string> optimizers{"adaact", "sgd", "adam"};
  std::string device = "cpu";
  std::string precision = "fp32";  // or bf16: autocast
  std::int64_t threads = 0;        // 0: one for each core
  /// Of each optimizer. FOOF and KFAC invert every 50 steps, so this is a whole period of theirs.
  std::int64_t steps = 50;
};

/// What training a model with an optimizer costs.
struct OptimizerCost {
  std::string optimizer;
  double ms_per_step = 0.0;  // mean
  double lowest_ms = 0.0;    // of the rounds
  double highest_ms = 0.0;
  double ratio_to_sgd = 0.0;
  std::int64_t state_bytes = 0;  // that the optimizer keeps from step to step
  std::int64_t peak_bytes =
      0;  // tensors of the first steps: weights, activations, gradients, state
};

/// Takes steps on a fixed batch of random images, in rounds that alternate between the optimizers so that
/// a machine whose speed drifts treats all alike. SGD is always measured, as the reference.
std::vector<OptimizerCost> measure_optimizers(BenchmarkOptions options);

}  // namespace adaact
