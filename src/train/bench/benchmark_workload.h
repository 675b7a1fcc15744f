#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/models/model.h>
#include <adaact/train/optimizer_benchmark.h>
#include <torch/optim/optimizer.h>

#ifdef ADAACT_WITH_CUDA
#include "train/graph/captured_work.h"
#endif

namespace adaact {

/// A model, an optimizer and a few batches in turn, as many steps as one likes. On a GPU it works on the
/// current stream, which must not be the default one where steps are captured.
class BenchmarkWorkload {
 public:
  /// Takes a few steps and, where it can and is to be, captures them. Without the name of an optimizer a
  /// step is a forward and a backward pass.
  BenchmarkWorkload(const BenchmarkOptions& options, const std::string& optimizer);

  /// So many steps and, if they are replayed, not too few to be timed.
  void run_round(std::int64_t steps);
  /// Milliseconds per step of each round.
  const std::vector<double>& rounds() const { return rounds_; }

  bool is_captured() const { return is_captured_; }
  std::int64_t state_bytes() const { return state_bytes_; }
  /// Of the steps that rounds consist of; without a graph also of the first ones.
  std::int64_t peak_bytes() const { return peak_bytes_; }
  /// What a step must move: for statistics, and for the update.
  std::int64_t statistics_bytes() const { return statistics_bytes_; }
  std::int64_t update_bytes() const;

 private:
  struct Batch {
    torch::Tensor images;
    torch::Tensor labels;
  };

  void make_batches(const BenchmarkOptions& options);
  void warm_up();
  bool can_be_captured() const;
  void capture();
  torch::Tensor gradients(const Batch& batch);
  void step();

  torch::Device device_;
  bool bf16_;
  torch::MemoryFormat format_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  // may be null
  std::vector<Batch> batches_;
  std::int64_t turn_ = 0;
#ifdef ADAACT_WITH_CUDA
  std::vector<std::unique_ptr<CapturedWork>> captured_;  // one for each batch
#endif
  bool is_captured_ = false;
  std::vector<double> rounds_;
  std::int64_t state_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::int64_t statistics_bytes_ = 0;
};

}  // namespace adaact
