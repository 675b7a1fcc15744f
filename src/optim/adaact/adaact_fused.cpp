// AdaAct's step on a GPU: all parameters in a few launches.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <adaact/optim/adaact.h>

#include "optim/adaact/adaact_internals.h"
#include "optim/adaact/adaact_update_cuda.h"
#include "optim/base/param_state.h"

namespace adaact {

#ifdef ADAACT_WITH_CUDA

namespace {

using Observed = std::map<std::size_t, const PendingMoment*>;

std::vector<RowSegment> even_segments(std::int64_t rows, std::int64_t count) {
  std::vector<RowSegment> segments;
  const auto length = rows / count;
  for (std::int64_t s = 0; s < count; ++s) segments.push_back({s * length, (s + 1) * length, 0});
  return segments;
}

/// V and what was observed for it in this step; false for what only the plain path knows.
bool describe_moments(AdaActParameter& update, const PendingMoment* seen,
                      const RowMoments& moments) {
  const auto& theta = update.tensors.theta;
  const auto rows = theta.size(0);
  if (!moments.segments.empty() && !cover_all_rows_evenly(moments.segments, rows)) return false;
  auto count = static_cast<std::int64_t>(moments.segments.size());
  if (seen != nullptr) {
    const auto groups = seen->moment.sum.size(0);
    const bool whole = seen->row_begin == 0 && seen->row_end == rows && rows % groups == 0;
    if (!whole || (count != 0 && count != groups)) return false;
    count = groups;
    update.tensors.sum = seen->moment.sum.to(theta.device(), sum_dtype(theta));
    update.count = seen->moment.count;
  }
  update.tensors.v = moments.ema.defined() ? following(moments.ema, theta)
                                           : torch::zeros({count, theta.numel() / rows},
                                                          theta.options().dtype(sum_dtype(theta)));
  update.observations = moments.segments.empty() ? 0 : moments.segments.front().observations;
  return true;
}

}  // namespace

bool AdaAct::update_fused(const DeviceStep* step, std::int64_t counted) {
  auto& self = *internals_;
  const auto indices = trained();
  Observed observed;
  std::set<std::size_t> observed_biases;
  for (const auto& pending : self.pending) {
    const auto& named = parameter(pending.weight).biases;
    observed_biases.insert(named.begin(), named.end());
    observed_biases.insert(pending.biases.begin(), pending.biases.end());
    if (!self.measure->would_give(pending)) continue;
    const bool first = observed.emplace(pending.weight, &pending).second;
    // A layer with runs of rows of its own, or one that is seen but has no gradient: rare.
    if (!first || !is_trained(pending.weight)) return false;
  }

  std::vector<AdaActParameter> updates;
  updates.reserve(indices.size());
  for (const auto index : indices) {
    const auto& tensor = parameter(index).tensor;
    const auto& options = options_of(index);
    if (!tensor.is_cuda() || options.covariance() == Covariance::Full) return false;
    const auto* known = find_state(index);
    const AdaActParamState state = known ? *known : AdaActParamState();
    const auto seen = observed.find(index);
    const auto* pending = seen == observed.end() ? nullptr : seen->second;
    const bool has_v = pending != nullptr || state.moments().ema.defined();
    const bool is_observed =
        has_v || observed_biases.count(index) != 0 || !state.moments().segments.empty();

    AdaActParameter update;
    auto& tensors = update.tensors;
    tensors.theta = tensor.detach();
    tensors.g = laid_out_as(tensors.theta, tensor.grad(), tensor.scalar_type());
    if (is_observed || options.unobserved_rule() == UnobservedRule::Momentum) {
      tensors.m = state_laid_out_as(tensors.theta, state.exp_avg());
    }
    if (has_v && !describe_moments(update, pending, state.moments())) return false;
    update.lr = options.lr();
    update.group = group_of(index);
    std::tie(update.beta1, update.beta2) = options.betas();
    update.eps = options.eps();
    update.weight_decay = options.weight_decay();
    update.power = options.power();
    std::tie(update.clip_low, update.clip_high) = options.clip_range();
    update.updates = state.step() - counted;
    if (tensors.sum.defined()) update.observations -= counted;  // else it stays as it is
    if (!can_update_cuda(update)) return false;
    updates.push_back(std::move(update));
  }
  adaact_update_cuda(updates, step);

  self.on_device.clear();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto index = indices[i];
    const auto& tensors = updates[i].tensors;
    const bool bias = observed_biases.count(index) != 0;
    if (!tensors.m.defined() && !tensors.v.defined() && !bias) continue;
    auto& state = state_of(index);
    auto& segments = state.moments().segments;
    if (tensors.m.defined()) state.exp_avg(tensors.m);
    if (tensors.v.defined()) {
      state.moments().ema = tensors.v;
      if (segments.empty()) segments = even_segments(tensors.theta.size(0), tensors.v.size(0));
    } else if (bias && segments.empty()) {
      segments.push_back({0, tensors.theta.numel(), 0});
    }
    self.on_device.push_back({index, tensors.m.defined(), tensors.sum.defined() || bias});
  }
  self.pending.clear();
  return true;
}

bool AdaAct::can_take_device_steps() const {
  return std::all_of(param_groups_.begin(), param_groups_.end(), [](const auto& group) {
    return static_cast<const AdaActOptions&>(group.options()).covariance() == Covariance::Diagonal;
  });
}

void AdaAct::count_fused_steps(const std::vector<std::size_t>& /*parameters*/, std::int64_t steps) {
  for (const auto& each : internals_->on_device) {
    auto& state = state_of(each.parameter);
    if (each.has_m) state.step(state.step() + steps);
    if (!each.observed) continue;
    for (auto& segment : state.moments().segments) segment.observations += steps;
  }
}

#endif

}  // namespace adaact
