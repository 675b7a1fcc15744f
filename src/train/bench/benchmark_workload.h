#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/optimizer_benchmark.h>
#include <torch/optim/optimizer.h>

#include "train/bench/measured_exchange.h"
#include "train/graph/replayed_step.h"
#include "train/step/classification_pass.h"

namespace adaact {

/// The options that a benchmark gives an optimizer, as JSON.
std::string optimizer_options_of(const BenchmarkOptions& options, const std::string& optimizer);

/// A model, an optimizer and a few batches in turn, as many steps as one likes. On a GPU it works on the
/// current stream, which must not be the default one where steps are captured.
class BenchmarkWorkload {
 public:
  /// Takes a few steps and, where it can and is to be, captures them. Without the name of an optimizer a
  /// step is a forward and a backward pass of one rank.
  BenchmarkWorkload(const BenchmarkOptions& options, const std::string& optimizer);

  /// Takes and times so many steps, or more where they are replayed and would be too few to be timed.
  void run_round(std::int64_t steps);
  /// Milliseconds per step of each round.
  const std::vector<double>& rounds() const { return rounds_; }

  bool is_captured() const { return !replayed_.empty(); }
  /// What the exchange costs all ranks, which must ask together. Nothing where there is one rank.
  std::optional<ExchangeCost> exchange_cost() const;
  std::int64_t state_bytes() const { return state_bytes_; }
  /// The most memory in use in the steps that rounds consist of; without a graph also in the first ones.
  std::int64_t peak_bytes() const { return peak_bytes_; }
  /// The bytes that a step must move: for statistics, and for the update.
  std::int64_t statistics_bytes() const { return statistics_bytes_; }
  std::int64_t update_bytes() const;

 private:
  void make_batches(const BenchmarkOptions& options);
  void warm_up();
  bool can_be_captured() const;
  torch::Tensor gradients(const Batch& batch);
  void step();

  const PassSettings settings_;
  const std::int64_t images_of_step_;  // on all ranks
  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  // may be null
  std::optional<MeasuredExchange> exchange_;            // of several ranks
  std::vector<Batch> batches_;
  std::int64_t turn_ = 0;
  std::deque<ReplayedStep> replayed_;  // one for each batch; empty where steps are not replayed
  std::vector<double> rounds_;
  std::int64_t state_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::int64_t statistics_bytes_ = 0;
};

}  // namespace adaact
