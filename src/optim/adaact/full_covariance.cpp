//   A_t = β₂ A_{t−1} + (1−β₂) E[ã ãᵀ]        (S, n', n'), n' = n + 1 with a bias
//   Ĝ_t = M̂_t ((Â_t + δI)ᵖ + εI)⁻¹           M̂ (rows, n'): weight and bias side by side
//
// Where the bias is not updated with this weight, because it is frozen or a column of another weight, M̂ is
// the weight's alone and so is Â: its first n rows and columns, which are E[x xᵀ].

#include "optim/adaact/full_covariance.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "moments/symmetric_eigen.h"
#include "optim/adaact/row_averages.h"
#include "optim/adaact/update.h"
#include "optim/base/parameter_update.h"

namespace adaact {
namespace {

torch::Tensor inverse_power(const torch::Tensor& a_hat, const AdaActOptions& options) {
  const auto [values, q] = symmetric_eigen(a_hat);
  const auto scale = (values + options.damping()).pow(options.power()) + options.eps();
  return rebuilt(q, scale.reciprocal()).to(a_hat.scalar_type());
}

/// n', of the matrix that a step multiplies by. A weight without gradient keeps what it has.
std::int64_t columns_of(const PlannedUpdate& planned) {
  const auto& known = planned.state->preconditioner();
  if (planned.rule != Rule::FullCovariance && known.defined()) return known.size(-1);
  return planned.theta.numel() / planned.theta.size(0) + (planned.column ? 1 : 0);
}

bool fits(const torch::Tensor& preconditioner, const RowMoments& moments, std::int64_t columns) {
  return preconditioner.defined() && preconditioner.size(0) == moments.ema.size(0) &&
         preconditioner.size(-1) == columns;
}

/// Whether ((Â + δI)ᵖ + εI)⁻¹ is to be computed anew: at the first and then every refresh_period-th observation of a
/// segment, and where there is none of this shape yet.
bool is_due(const torch::Tensor& preconditioner, const RowMoments& moments, std::int64_t columns,
            const AdaActOptions& options) {
  const auto period = options.refresh_period();
  const bool due = std::any_of(
      moments.segments.begin(), moments.segments.end(),
      [&](const RowSegment& segment) { return segment.observations % period == 1 % period; });
  return due || !fits(preconditioner, moments, columns);
}

torch::Tensor refreshed(const RowMoments& moments, std::int64_t columns,
                        const AdaActOptions& options) {
  const auto a_hat = unbiased(moments, std::get<1>(options.betas()));
  return inverse_power(a_hat.narrow(1, 0, columns).narrow(2, 0, columns), options);
}

/// The next covariance of a weight and the preconditioner that follows from it.
struct CovarianceChange {
  const PlannedUpdate* of;
  RowMoments moments;
  torch::Tensor preconditioner;
  std::int64_t columns;

  torch::Tensor refreshed_preconditioner() const {
    return refreshed(moments, columns, *of->of.options);
  }
  /// How long its eigendecomposition takes, in proportion to those of other weights.
  double cost() const {
    const auto n = static_cast<double>(columns);
    return static_cast<double>(moments.ema.size(0)) * n * n * n;
  }
};

void refresh(const std::vector<CovarianceChange*>& due, SharedSums* ranks) {
  if (ranks == nullptr) {
    for (auto* change : due) change->preconditioner = change->refreshed_preconditioner();
    return;
  }
  if (due.empty()) return;  // on all ranks
  std::vector<double> costs;
  std::vector<bool> occasion;
  for (const auto* change : due) {
    costs.push_back(change->cost());
    occasion.resize(std::max(occasion.size(), change->of->of.index + 1));
    occasion[change->of->of.index] = true;
  }
  const auto rank_of = dealt_out(costs, ranks->ranks().size());
  const auto own_share = [&] {
    std::vector<SharedSums::Entry> entries;
    for (std::size_t i = 0; i < due.size(); ++i) {
      if (rank_of[i] != ranks->ranks().rank()) continue;
      entries.push_back({{static_cast<std::int64_t>(i)}, due[i]->refreshed_preconditioner(), 1});
    }
    return entries;
  };
  for (auto& entry : ranks->add_up(own_share, occasion)) {
    due[static_cast<std::size_t>(entry.key[0])]->preconditioner = entry.sum;
  }
}

bool is_updated(const PlannedUpdate& planned) {
  return planned.rule == Rule::FullCovariance || planned.rule == Rule::ColumnOfWeight;
}

/// What changes from step to step, by column of (parameters, 3) float64.
enum Scalar : std::int64_t {
  kCorrection,  // 1 − β₁ᵗ
  kRate,        // η
  kDecay,       // 1 − ηλ
  kScalars
};

/// A GPU that still reads the numbers of the step before is not waited for.
void send(const std::vector<double>& scalars, torch::Tensor& there, torch::Device device) {
  const auto here = torch::tensor(scalars, torch::kFloat64).view({-1, kScalars});
  if (!there.defined() || there.sizes() != here.sizes() || there.device() != device) {
    there = here.to(device, torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
  } else {
    there.copy_(device.is_cuda() ? here.pin_memory() : here, /*non_blocking=*/true);
  }
}

/// Brings M up to date and returns M̂.
torch::Tensor averaged_gradient(const MatrixUpdate& update, const AdaActOptions& options,
                                const torch::Tensor& scalars) {
  average_gradient(update.m, update.g, std::get<0>(options.betas()));  // M_t
  return update.m / scalars[kCorrection].to(update.m.options());
}

void move_parameter(const torch::Tensor& theta, const torch::Tensor& g_hat,
                    const torch::Tensor& scalars) {
  const auto of_step = scalars.to(g_hat.options());
  const auto updated = theta.to(g_hat.scalar_type());  // in bfloat16 1 − ηλ would be far off
  updated.mul_(of_step[kDecay]).addcmul_(g_hat, of_step[kRate], -1.0);  // θ_t
  if (!updated.is_same(theta)) theta.copy_(updated);
}

/// Updates a weight, and the bias that is one more column of it.
void update_matrix(const PlannedUpdate& planned, const torch::Tensor& scalars,
                   const PlannedUpdate* column, const torch::Tensor& scalars_of_column) {
  const auto& options = *planned.of.options;
  const auto& state = *planned.state;
  auto w = matrices_of(planned.theta, state, planned.theta.size(0));
  auto m_hat = averaged_gradient(w, options, scalars);  // M̂_t (rows, n)
  auto g = w.g.to(m_hat.dtype());
  if (column != nullptr) {
    const auto b = matrices_of(column->theta, *column->state, column->theta.numel());
    const auto m_column = averaged_gradient(b, *column->of.options, scalars_of_column);
    m_hat = torch::cat({m_hat, m_column}, 1);  // M̂_t (rows, n + 1)
    g = torch::cat({g, b.g.to(m_hat.dtype())}, 1);
  }

  // What rows that belong to no segment keep; the others' are written over it.
  auto g_hat = (planned.rule_of_gaps == Rule::PlainGradient ? g : m_hat).clone();
  const auto& segments = state.moments().segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto rows = segments[s].end - segments[s].begin;
    const auto m_rows = m_hat.narrow(0, segments[s].begin, rows);
    g_hat.narrow(0, segments[s].begin, rows)
        .copy_(m_rows.matmul(state.preconditioner()[static_cast<std::int64_t>(s)]));  // Ĝ_t
  }
  move_parameter(w.theta.matrix(), g_hat.narrow(1, 0, w.m.size(1)), scalars);
  w.theta.finish();
  if (column != nullptr) {
    move_parameter(column->theta.detach(), g_hat.select(1, g_hat.size(1) - 1), scalars_of_column);
  }
}

}  // namespace

void FullCovariance::move_covariances(std::vector<PlannedUpdate>& plan, SharedSums* ranks) {
  std::vector<CovarianceChange> changes;
  for (const auto& planned : plan) {
    const bool is_seen = planned.is_full() && !planned.seen.empty();
    if (!is_seen && planned.rule != Rule::FullCovariance) continue;
    const auto& options = *planned.of.options;
    CovarianceChange change{&planned, planned.state->moments(), planned.state->preconditioner(),
                            columns_of(planned)};
    if (is_seen) {
      if (change.moments.ema.defined()) change.moments.ema = change.moments.ema.clone();
      const auto [clip_low, clip_high] = options.clip_range();
      update_row_moments(change.moments, planned.seen, std::get<1>(options.betas()), clip_low,
                         clip_high);  // A_t
    } else if (fits(change.preconditioner, change.moments, change.columns)) {
      continue;
    }
    changes.push_back(std::move(change));
  }
  std::vector<CovarianceChange*> due;
  for (auto& change : changes) {
    if (is_due(change.preconditioner, change.moments, change.columns, *change.of->of.options)) {
      due.push_back(&change);
    }
  }
  refresh(due, ranks);
  for (auto& change : changes) {
    change.preconditioner = following(change.preconditioner, change.of->theta);
  }
  for (auto& change : changes) {
    auto& state = *change.of->state;
    state.moments(std::move(change.moments));
    auto& known = state.preconditioner();
    known = in_place_of(known, change.preconditioner);
  }
}

void FullCovariance::prepare(std::vector<PlannedUpdate>& plan) {
  std::vector<double> scalars;
  torch::Device device = torch::kCPU;
  for (auto& planned : plan) {
    if (!is_updated(planned)) continue;
    const auto& options = *planned.of.options;
    auto& state = *planned.state;
    prepare_buffer(state.exp_avg(), planned.theta);
    auto& preconditioner = state.preconditioner();
    if (preconditioner.defined()) preconditioner = following(preconditioner, planned.theta);
    scalars.push_back(bias_correction(std::get<0>(options.betas()), state.step() + 1));
    scalars.push_back(options.lr());
    scalars.push_back(1.0 - options.lr() * options.weight_decay());
    device = planned.theta.device();
  }
  if (!scalars.empty()) send(scalars, scalars_, device);
}

std::vector<const void*> FullCovariance::memory(const std::vector<PlannedUpdate>& plan) const {
  std::vector<const void*> memory{memory_of(scalars_)};
  for (const auto& planned : plan) {
    if (!is_updated(planned)) continue;
    for (const auto& used :
         {planned.theta, planned.state->exp_avg(), planned.state->preconditioner()}) {
      memory.push_back(memory_of(used));
    }
  }
  return memory;
}

void FullCovariance::apply(const std::vector<PlannedUpdate>& plan) const {
  std::vector<torch::Tensor> scalars(plan.size());
  std::int64_t row = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (is_updated(plan[i])) scalars[i] = scalars_[row++];
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].rule != Rule::FullCovariance) continue;
    const auto& column = plan[i].column;
    update_matrix(plan[i], scalars[i], column ? &plan[*column] : nullptr,
                  column ? scalars[*column] : torch::Tensor());
  }
}

}  // namespace adaact
