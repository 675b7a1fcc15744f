#include "optim/adaact/apply_on_gpu.h"

#include <tuple>
#include <utility>

#include "optim/adaact/update.h"
#include "optim/base/parameter_update.h"

namespace adaact {
namespace {

bool is_for_kernels(const PlannedUpdate& planned) {
  return planned.rule == Rule::ScaledByInput || planned.rule == Rule::ConstantInput ||
         planned.rule == Rule::PlainGradient;
}

/// V and what was observed for it in this step; false for what only the plain path knows.
bool describe_moments(AdaActParameter& update, const PlannedUpdate& planned,
                      const RowMoments& moments) {
  const auto& theta = update.tensors.theta;
  const auto rows = theta.size(0);
  if (planned.seen.size() > 1) return false;
  if (!moments.segments.empty() && !cover_all_rows_evenly(moments.segments, rows)) return false;
  auto count = static_cast<std::int64_t>(moments.segments.size());
  if (!planned.seen.empty()) {
    const auto& seen = *planned.seen.front();
    const auto groups = seen.moment.sum.size(0);
    const bool whole = seen.row_begin == 0 && seen.row_end == rows && rows % groups == 0;
    if (!whole || (count != 0 && count != groups)) return false;
    count = groups;
    update.tensors.sum = seen.moment.sum.to(theta.device(), sum_dtype(theta));
    update.count = seen.moment.count;
  }
  update.tensors.v = moments.ema.defined() ? following(moments.ema, theta)
                                           : torch::zeros({count, theta.numel() / rows},
                                                          theta.options().dtype(sum_dtype(theta)));
  update.observations = moments.segments.empty() ? 0 : moments.segments.front().observations;
  return true;
}

std::optional<AdaActParameter> describe(const PlannedUpdate& planned, std::int64_t counted) {
  const auto& options = *planned.of.options;
  const auto known = planned.of.state != nullptr ? *planned.of.state : AdaActParamState();
  AdaActParameter update;
  auto& tensors = update.tensors;
  tensors.theta = planned.theta.detach();
  tensors.g = laid_out_as(tensors.theta, planned.theta.grad(), planned.theta.scalar_type());
  if (planned.has_m()) tensors.m = state_laid_out_as(tensors.theta, known.exp_avg());
  if (planned.rule == Rule::ScaledByInput && !describe_moments(update, planned, known.moments())) {
    return std::nullopt;
  }
  update.lr = options.lr();
  update.group = planned.of.group;
  std::tie(update.beta1, update.beta2) = options.betas();
  update.eps = options.eps();
  update.weight_decay = options.weight_decay();
  update.power = options.power();
  std::tie(update.clip_low, update.clip_high) = options.clip_range();
  update.updates = known.step() - counted;
  if (tensors.sum.defined()) update.observations -= counted;  // else it stays as it is
  if (!can_update_cuda(update)) return std::nullopt;
  return update;
}

std::vector<RowSegment> even_segments(std::int64_t rows, std::int64_t count) {
  std::vector<RowSegment> segments;
  const auto length = rows / count;
  for (std::int64_t s = 0; s < count; ++s) segments.push_back({s * length, (s + 1) * length, 0});
  return segments;
}

}  // namespace

std::optional<std::vector<AdaActParameter>> describe_for_gpu(const std::vector<PlannedUpdate>& plan,
                                                             std::int64_t counted) {
  std::vector<AdaActParameter> updates;
  for (const auto& planned : plan) {
    if (planned.rule == Rule::None && planned.moves_v()) return std::nullopt;
    if (!is_for_kernels(planned)) continue;
    if (!planned.theta.is_cuda()) return std::nullopt;
    auto update = describe(planned, counted);
    if (!update) return std::nullopt;
    updates.push_back(*std::move(update));
  }
  return updates;
}

void apply_on_gpu(std::vector<PlannedUpdate>& plan, const std::vector<AdaActParameter>& updates,
                  const DeviceStep* step) {
  if (updates.empty()) return;
  adaact_update_cuda(updates, step);
  auto update = updates.begin();
  for (auto& planned : plan) {
    if (!is_for_kernels(planned)) continue;
    const auto& tensors = (update++)->tensors;
    if (tensors.m.defined()) planned.state->exp_avg(tensors.m);
    if (!tensors.v.defined()) continue;
    auto& moments = planned.state->moments();
    moments.ema = tensors.v;
    if (moments.segments.empty()) {
      moments.segments = even_segments(tensors.theta.size(0), tensors.v.size(0));
    }
  }
}

}  // namespace adaact
