#include "optim/kronecker/factor_listener.h"

#include <algorithm>
#include <utility>

#include "observe/observed_features.h"

namespace adaact {
namespace {

/// Dimension 0, or 1 where there is none but the features'.
std::int64_t samples_of(const torch::Tensor& tensor, const Geometry& geometry) {
  const bool batched = tensor.dim() > geometry.spatial_dims() + 1;
  return batched ? tensor.size(0) : 1;
}

/// Reads an output the way its layer wrote it: channels of each group at each position.
Geometry output_geometry(const Geometry& geometry) {
  if (geometry.is_linear()) return Geometry::linear();
  const std::vector<std::int64_t> ones(geometry.kernel.size(), 1);
  return Geometry::convolution(ones, {1}, {0}, {1}, geometry.groups);
}

void add(Moment& total, Moment moment) {
  if (total.sum.defined()) {
    // A model moved between two micro-batches: what was summed follows it.
    total.sum = total.sum.to(moment.sum.options()).add_(moment.sum);
  } else {
    total.sum = std::move(moment.sum);
  }
  total.count += moment.count;
}

}  // namespace

FactorListener::FactorListener(const LayerMap& model)
    : parameters_(model.tensors()),
      layers_(parameters_.size()),
      excessive_sizes_(parameters_.size(), 0) {}

void FactorListener::set_layers(std::vector<Layer> layers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  layers_ = std::move(layers);
}

std::vector<bool> FactorListener::measured_layers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<bool> measured;
  for (const auto& layer : layers_) measured.push_back(layer.measured);
  return measured;
}

FactorListener::Layer FactorListener::layer_of(const LayerUse& use) {
  const auto& weight = parameters_[use.weight];
  const std::lock_guard<std::mutex> lock(mutex_);
  auto layer = layers_[use.weight];
  layer.measured &= weight.requires_grad() && weight.is_floating_point() && weight.numel() > 0;
  if (!layer.measured) return layer;
  const auto inputs = weight.numel() / weight.size(0) + (layer.with_bias ? 1 : 0);
  const auto outputs = (use.row_end - use.row_begin) / use.geometry.groups;
  const auto largest = layer.with_gradients ? std::max(inputs, outputs) : inputs;
  layer.measured = largest <= layer.max_size;
  if (!layer.measured) excessive_sizes_[use.weight] = largest;
  return layer;
}

FactorSums* FactorListener::find_sums(const LayerUse& use) {
  for (auto& sums : sums_) {
    if (sums.weight == use.weight && sums.begin == use.row_begin && sums.end == use.row_end &&
        sums.inputs.sum.size(0) == use.geometry.groups) {
      return &sums;
    }
  }
  return nullptr;
}

void FactorListener::on_input(const LayerUse& use, const torch::Tensor& input) {
  const auto layer = layer_of(use);
  if (!layer.measured || input.numel() == 0) return;
  auto moment = covariance(input, use.geometry, layer.with_bias);
  check_observed_features(parameters_[use.weight], use,
                          moment.sum.size(-1) - (layer.with_bias ? 1 : 0));
  const std::lock_guard<std::mutex> lock(mutex_);
  auto* sums = find_sums(use);
  if (sums == nullptr) {
    sums = &sums_.emplace_back();
    sums->weight = use.weight;
    sums->begin = use.row_begin;
    sums->end = use.row_end;
  }
  add(sums->inputs, std::move(moment));
  sums->input_samples += samples_of(input, use.geometry);
}

bool FactorListener::wants_output_gradient(const LayerUse& use) {
  const auto layer = layer_of(use);
  return layer.measured && layer.with_gradients;
}

void FactorListener::on_output_gradient(const LayerUse& use, const torch::Tensor& gradient) {
  auto moment = covariance(gradient, output_geometry(use.geometry), /*with_bias=*/false);
  const std::lock_guard<std::mutex> lock(mutex_);
  // The step that the forward pass belonged to may have been taken or rejected in the meantime.
  auto* sums = find_sums(use);
  if (sums == nullptr) return;
  add(sums->gradients, std::move(moment));
  sums->gradient_samples += samples_of(gradient, use.geometry);
}

std::vector<FactorSums> FactorListener::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(sums_, {});
}

std::int64_t FactorListener::excessive_size(std::size_t weight) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return excessive_sizes_[weight];
}

}  // namespace adaact
