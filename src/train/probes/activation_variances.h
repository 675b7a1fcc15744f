#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <adaact/observe/observer.h>
#include <adaact/train/metrics.h>

namespace adaact {

/// Measures, while it lives, how much the input of every layer varies over the images of a batch. All of
/// it happens on the model's device, without waiting, so that steps may be captured in a graph.
class ActivationVariances {
 public:
  explicit ActivationVariances(torch::nn::Module& model);

  /// The variances of all batches since the last reset; layers that saw none are left out.
  std::vector<ActivationVariance> read();
  void reset();

  /// All that was measured since the last reset, as numbers to keep and to put back.
  std::vector<double> totals();
  void set_totals(const std::vector<double>& totals);
  /// How many numbers the totals of a model are.
  static std::int64_t numbers_of(torch::nn::Module& model);

 private:
  class Inputs;

  LayerMap map_;
  std::shared_ptr<Inputs> inputs_;
  Observer observer_;
};

}  // namespace adaact
