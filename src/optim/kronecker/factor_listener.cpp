#include "optim/kronecker/factor_listener.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/jit/python/update_graph_executor_opt.h>

#include "observe/observed_features.h"
#include "observe/torchscript.h"

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

template <typename List, typename Condition>
void erase_where(List& list, Condition&& condition) {
  list.erase(std::remove_if(list.begin(), list.end(), condition), list.end());
}

}  // namespace

FactorListener::FactorListener(const LayerMap& model)
    : parameters_(model.tensors()),
      layers_(parameters_.size()),
      excessive_sizes_(parameters_.size(), 0),
      hidden_(parameters_.size(), false),
      gradients_(std::make_shared<GradientWatch>(parameters_)) {}

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

bool FactorListener::can_be_measured(std::size_t parameter) const {
  const auto& weight = parameters_[parameter];
  return weight.requires_grad() && weight.is_floating_point() && weight.numel() > 0;
}

std::int64_t FactorListener::largest_factor(const LayerUse& use, const Layer& layer) const {
  const auto& weight = parameters_[use.weight];
  const auto inputs = weight.numel() / weight.size(0) + (layer.with_bias ? 1 : 0);
  const auto outputs = (use.row_end - use.row_begin) / use.geometry.groups;
  return layer.with_gradients ? std::max(inputs, outputs) : inputs;
}

FactorListener::Layer FactorListener::layer_of(const LayerUse& use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto layer = layers_[use.weight];
  layer.measured = layer.measured && can_be_measured(use.weight);
  if (!layer.measured) return layer;
  const auto largest = largest_factor(use, layer);
  layer.measured = largest <= layer.max_size;
  if (!layer.measured) excessive_sizes_[use.weight] = largest;
  return layer;
}

FactorSums& FactorListener::sums_of(const LayerUse& use, bool of_returned_gradients) {
  for (auto& sums : sums_) {
    if (sums.weight == use.weight && sums.begin == use.row_begin && sums.end == use.row_end &&
        sums.inputs.sum.size(0) == use.geometry.groups &&
        sums.of_returned_gradients == of_returned_gradients) {
      return sums;
    }
  }
  auto& sums = sums_.emplace_back();
  sums.weight = use.weight;
  sums.begin = use.row_begin;
  sums.end = use.row_end;
  sums.of_returned_gradients = of_returned_gradients;
  return sums;
}

Moment FactorListener::measured_input(const LayerUse& use, const torch::Tensor& input,
                                      bool with_bias) const {
  auto moment = covariance(input, use.geometry, with_bias);
  check_observed_features(parameters_[use.weight], use, moment.sum.size(-1) - (with_bias ? 1 : 0));
  return moment;
}

void FactorListener::on_input(const LayerUse& use, const torch::Tensor& input) {
  const auto layer = layer_of(use);
  if (!layer.measured || layer.with_gradients || input.numel() == 0) return;
  auto moment = measured_input(use, input, layer.with_bias);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& sums = sums_of(use, /*of_returned_gradients=*/false);
  add(sums.inputs, std::move(moment));
  sums.samples += samples_of(input, use.geometry);
}

OutputGradientListener FactorListener::listen_to_output(const LayerUse& use,
                                                        const torch::Tensor& input) {
  const auto layer = layer_of(use);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hidden_[use.weight] = false;
  }
  if (!layer.measured || !layer.with_gradients || input.numel() == 0) return nullptr;
  auto pair = std::make_shared<Use>();
  pair->of = use;
  pair->inputs = measured_input(use, input, layer.with_bias);
  pair->samples = samples_of(input, use.geometry);
  const std::lock_guard<std::mutex> lock(mutex_);
  pair->discards = discards_;
  return [this, pair](const OutputGradient& arrived) { on_output_gradient(pair, arrived); };
}

/// A detached weight has no part in the gradient. But TorchScript, where it optimises, detaches weights that
/// have.
void FactorListener::on_unrecorded_use(const LayerUse& use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto& layer = layers_[use.weight];
  if (!layer.with_gradients || !can_be_measured(use.weight) ||
      largest_factor(use, layer) > layer.max_size) {
    return;
  }
  if (!is_run_by_torchscript() || !torch::jit::getGraphExecutorOptimize()) return;
  hidden_[use.weight] = true;
  hidden_uses_.insert(use.weight);
}

std::set<std::size_t> FactorListener::hidden_uses() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hidden_uses_;
}

void FactorListener::on_output_gradient(const std::shared_ptr<Use>& use,
                                        const OutputGradient& arrived) {
  const auto weight = use->of.weight;
  auto gradient = arrived.gradient;
  Moment inputs;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (use->discards != discards_ || !use->inputs.sum.defined()) return;
    if (arrived.is_added) {
      if (gradients_->was_dropped(weight)) forget(weight);
      gradients_->expect_addition(weight);
    }
    const auto before = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.use == use && kept.is_added == arrived.is_added;
    });
    if (before != kept_.end()) gradient = before->gradient + gradient;
    if (arrived.graph_is_kept) {
      if (before == kept_.end()) {
        add_kept_of_graphs_that_are_gone();
        // A copy: the parameter's gradient may be the same memory.
        kept_.push_back({use, arrived.is_added, gradient.clone()});
      } else {
        before->gradient = gradient;
      }
      return;
    }
    if (before != kept_.end()) kept_.erase(before);
    inputs = std::exchange(use->inputs, {});
  }
  auto moment = covariance(gradient, output_geometry(use->of.geometry), /*with_bias=*/false);
  const std::lock_guard<std::mutex> lock(mutex_);
  add_pair(*use, std::move(inputs), std::move(moment), arrived.is_added);
}

/// Adds the pairs of passes whose graphs were kept for a while and are gone, so that they do not pile up until the
/// step.
void FactorListener::add_kept_of_graphs_that_are_gone() {
  const auto gone = std::stable_partition(kept_.begin(), kept_.end(), [](const Kept& kept) {
    return kept.use.use_count() > 1;  // autograd's graph holds it, too
  });
  for (auto kept = gone; kept != kept_.end(); ++kept) {
    if (!kept->use->inputs.sum.defined()) continue;
    add_pair(*kept->use, std::exchange(kept->use->inputs, {}),
             covariance(kept->gradient, output_geometry(kept->use->of.geometry),
                        /*with_bias=*/false),
             kept->is_added);
  }
  kept_.erase(gone, kept_.end());
}

void FactorListener::add_pair(const Use& use, Moment inputs, Moment gradients, bool is_added) {
  auto& sums = sums_of(use.of, !is_added);
  add(sums.inputs, std::move(inputs));
  add(sums.gradients, std::move(gradients));
  sums.samples += use.samples;
}

/// What passes have brought that added to the gradient of a weight.
std::set<std::size_t> FactorListener::weights_with_pairs() const {
  std::set<std::size_t> weights;
  for (const auto& sums : sums_) {
    if (sums.gradients.sum.defined() && !sums.of_returned_gradients) weights.insert(sums.weight);
  }
  for (const auto& kept : kept_) {
    if (kept.is_added) weights.insert(kept.use->of.weight);
  }
  return weights;
}

void FactorListener::forget(std::size_t weight) {
  erase_where(sums_, [&](const FactorSums& sums) {
    return sums.weight == weight && !sums.of_returned_gradients;
  });
  erase_where(kept_,
              [&](const Kept& kept) { return kept.use->of.weight == weight && kept.is_added; });
}

std::vector<FactorSums> FactorListener::take(ZeroGradient zero) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto weight : weights_with_pairs()) {
    const bool is_there = zero == ZeroGradient::IsThere && parameters_[weight].grad().defined();
    if (!is_there && gradients_->was_dropped(weight)) forget(weight);
  }
  const auto with_pairs = weights_with_pairs();
  for (const auto& [use, is_added, gradient] : kept_) {
    const auto& inputs = use->inputs;  // still needed if another pass comes
    if (!inputs.sum.defined()) continue;
    add_pair(*use, {inputs.sum.clone(), inputs.count},
             covariance(gradient, output_geometry(use->of.geometry), /*with_bias=*/false),
             is_added);
  }
  kept_.clear();
  hidden_uses_.clear();
  auto taken = std::exchange(sums_, {});
  erase_where(taken, [&](const FactorSums& sums) {
    return sums.of_returned_gradients && with_pairs.count(sums.weight) > 0;
  });
  return taken;
}

void FactorListener::discard() {
  const std::lock_guard<std::mutex> lock(mutex_);
  sums_.clear();
  kept_.clear();
  hidden_uses_.clear();
  ++discards_;
}

bool FactorListener::is_hidden(std::size_t weight) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return hidden_[weight];
}

std::int64_t FactorListener::excessive_size(std::size_t weight) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return excessive_sizes_[weight];
}

}  // namespace adaact
