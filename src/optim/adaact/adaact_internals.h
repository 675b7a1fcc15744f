#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <adaact/optim/adaact.h>

#include "moments/accumulator.h"
#include "optim/adaact/adaact_update.h"
#include "optim/base/observed_features.h"
#include "optim/base/parameter_update.h"

namespace adaact {

/// Decides what to measure of each layer's input. Shared with the observer, which other threads may
/// still be using when the optimizer is gone.
class InputMeasure {
 public:
  struct Layer {
    bool managed = false;  // in a parameter group
    bool full = false;     // covariance rather than second moment
    bool with_bias = false;
  };

  explicit InputMeasure(const LayerMap& map) : layers_(map.parameters().size()) {
    for (const auto& parameter : map.parameters()) parameters_.push_back(parameter.tensor);
  }

  void set_layers(std::vector<Layer> layers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    layers_ = std::move(layers);
  }

  /// Its measure is second_moment().
  bool is_diagonal(const LayerUse& use, const torch::Tensor& input) const {
    if (layer_of(use.weight).full || !is_measured(use, input)) return false;
    use.geometry.check(input);
    check_observed_features(parameters_[use.weight], use, use.geometry.features(input));
    return true;
  }

  Moment operator()(const LayerUse& use, const torch::Tensor& input) const {
    const auto layer = layer_of(use.weight);
    const auto& weight = parameters_[use.weight];
    if (!is_measured(use, input)) return {};
    auto moment = layer.full ? covariance(input, use.geometry, layer.with_bias)
                             : adaact::second_moment(input, use.geometry);
    check_observed_features(weight, use, moment.sum.size(-1) - (layer.with_bias ? 1 : 0));
    return moment;
  }
  /// False for what was measured before the parameter groups or their options changed, and for what
  /// was only seen.
  bool would_give(const PendingMoment& observed) const {
    if (!observed.moment.sum.defined()) return false;
    const auto layer = layer_of(observed.weight);
    const auto& weight = parameters_[observed.weight];
    const auto width = weight.numel() / weight.size(0) + (layer.with_bias ? 1 : 0);
    return layer.managed && (observed.moment.sum.dim() == 3) == layer.full &&
           observed.moment.sum.size(-1) == width;
  }

  Layer layer_of(std::size_t weight) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return layers_[weight];
  }

 private:
  bool is_measured(const LayerUse& use, const torch::Tensor& input) const {
    const auto& weight = parameters_[use.weight];
    const bool measurable = weight.is_floating_point() && weight.numel() > 0 && input.numel() > 0;
    return layer_of(use.weight).managed && weight.requires_grad() && measurable;
  }

  std::vector<torch::Tensor> parameters_;
  mutable std::mutex mutex_;
  std::vector<Layer> layers_;
};

struct AdaAct::Internals {
  explicit Internals(const LayerMap& model)
      : measure(std::make_shared<InputMeasure>(model)),
        accumulator(std::make_shared<MomentAccumulator>(
            model,
            [shared = measure](const LayerUse& use, const torch::Tensor& input) {
              return (*shared)(use, input);
            },
            [shared = measure](const LayerUse& use, const torch::Tensor& input) {
              return shared->is_diagonal(use, input);
            })) {}

  std::shared_ptr<InputMeasure> measure;
  std::shared_ptr<MomentAccumulator> accumulator;
  /// What a step on a GPU counts for a parameter.
  struct OnDevice {
    std::size_t parameter;
    bool has_m;
    bool observed;  // in this step
  };

  std::vector<PendingMoment> pending;     // of the step being taken
  std::vector<OnDevice> on_device;        // of the last step on a GPU
  std::vector<std::size_t> joint_biases;  // per parameter, Full only; kNotFound: none
  torch::Tensor scalars_of_full;          // what update_with_full_covariance() has to send
};

inline bool cover_all_rows_evenly(const std::vector<RowSegment>& segments, std::int64_t rows) {
  const auto& first = segments.front();
  std::int64_t expected = 0;
  for (const auto& segment : segments) {
    if (segment.begin != expected || segment.end - segment.begin != first.end - first.begin ||
        segment.observations != first.observations) {
      return false;
    }
    expected = segment.end;
  }
  return expected == rows;
}

inline AdaActScalars scalars_of(const AdaActOptions& options, std::int64_t updates_of_m) {
  const auto beta1 = std::get<0>(options.betas());
  return {options.lr(), beta1, options.weight_decay(), bias_correction(beta1, updates_of_m)};
}

/// θ, M_t's storage and G_t of one parameter as matrices of so many rows.
struct MatrixUpdate {
  MatrixView theta;
  torch::Tensor m;
  torch::Tensor g;
};

inline MatrixUpdate matrices_of(const torch::Tensor& parameter, const AdaActParamState& state,
                                std::int64_t rows) {
  return {MatrixView(parameter, rows), state.exp_avg().view({rows, -1}),
          gradient_of(parameter).view({rows, -1})};
}

}  // namespace adaact
