#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "moments/accumulator.h"
#include "observe/observed_features.h"

namespace adaact {

/// What is to be measured of a layer's input.
struct MeasuredLayer {
  bool managed = false;  // in a parameter group
  bool full = false;     // covariance rather than second moment
  bool with_bias = false;

  /// Numbers that a row of its moments has.
  std::int64_t width(const torch::Tensor& weight) const {
    return weight.numel() / weight.size(0) + (with_bias ? 1 : 0);
  }
  /// Whether moments of this shape are what would be measured now.
  bool would_give(const torch::Tensor& moments, const torch::Tensor& weight) const {
    return (moments.dim() == 3) == full && moments.size(-1) == width(weight);
  }
};

/// Measures what it is told of each layer's input. Shared with the observer, which other threads may still
/// be using when the optimizer is gone.
class InputMeasure {
 public:
  explicit InputMeasure(const LayerMap& map)
      : parameters_(map.tensors()), layers_(parameters_.size()) {}

  void set_layers(std::vector<MeasuredLayer> layers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    layers_ = std::move(layers);
  }
  MeasuredLayer layer_of(std::size_t weight) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return layers_[weight];
  }

  /// Whether the measure of this use is second_moment().
  bool is_diagonal(const LayerUse& use, const torch::Tensor& input) const {
    if (layer_of(use.weight).full || !is_measured(use, input)) return false;
    use.geometry.check(input);
    check_observed_features(parameters_[use.weight], use, use.geometry.features(input));
    return true;
  }

  Moment operator()(const LayerUse& use, const torch::Tensor& input) const {
    if (!is_measured(use, input)) return {};
    const auto layer = layer_of(use.weight);
    auto moment = layer.full ? covariance(input, use.geometry, layer.with_bias)
                             : second_moment(input, use.geometry);
    check_observed_features(parameters_[use.weight], use,
                            moment.sum.size(-1) - (layer.with_bias ? 1 : 0));
    return moment;
  }

 private:
  bool is_measured(const LayerUse& use, const torch::Tensor& input) const {
    const auto& weight = parameters_[use.weight];
    const bool measurable = weight.is_floating_point() && weight.numel() > 0 && input.numel() > 0;
    return layer_of(use.weight).managed && weight.requires_grad() && measurable;
  }

  const std::vector<torch::Tensor> parameters_;
  mutable std::mutex mutex_;
  std::vector<MeasuredLayer> layers_;
};

}  // namespace adaact
