#pragma once

#include <cstdint>
#include <memory>

#include <adaact/observe/observer.h>
#include <torch/nn/module.h>

namespace adaact {

/// Counts, while it lives, the bytes that the second moments of a model's inputs must move at least:
/// the input of each layer is read once, as it comes to the layer, and its sums are written and, by
/// the update, read.
class StatisticsTraffic {
 public:
  explicit StatisticsTraffic(torch::nn::Module& model);

  std::int64_t bytes() const;

 private:
  class Inputs;
  std::shared_ptr<Inputs> inputs_;
  Observer observer_;
};

/// The bytes that an update must move at least: parameters and state are read and written, gradients
/// are read.
std::int64_t update_traffic(const torch::nn::Module& model, std::int64_t state_bytes);

/// Bytes read and bytes written per second by copies that no cache holds.
double copy_bytes_per_second(torch::Device device);

}  // namespace adaact
