#include "optim/kronecker_factors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace adaact {
namespace {

/// The part of a square block for rows [begin, end) of its run; nothing where the run has groups,
/// which are never cut.
template <typename Run>
torch::Tensor diagonal_block(const torch::Tensor& matrix, const Run& run, std::int64_t begin,
                             std::int64_t end) {
  if (!matrix.defined()) return {};
  const auto offset = begin - run.begin;
  return matrix.narrow(1, offset, end - begin).narrow(2, offset, end - begin).contiguous();
}

template <typename Run>
bool covers(const Run& run, std::int64_t begin, std::int64_t end) {
  return run.begin <= begin && end <= run.end;
}

FactorSums part_of(const FactorSums& sums, std::int64_t begin, std::int64_t end) {
  auto part = sums;
  part.begin = begin;
  part.end = end;
  part.gradients.sum = diagonal_block(sums.gradients.sum, sums, begin, end);
  return part;
}

KroneckerFactors part_of(const KroneckerFactors& factors, std::int64_t begin, std::int64_t end) {
  KroneckerFactors part;
  part.begin = begin;
  part.end = end;
  part.updates = factors.updates;
  part.a = factors.a;
  part.p = diagonal_block(factors.p, factors, begin, end);
  return part;
}

bool same_rows(const KroneckerFactors& factors, const FactorSums& sums) {
  return factors.begin == sums.begin && factors.end == sums.end;
}

void add(Moment& total, const Moment& moment) {
  total.sum = total.sum + moment.sum;
  total.count += moment.count;
}

/// Cuts runs of rows where any of them begins or ends, and adds up sums of the same rows.
void align(std::vector<KroneckerFactors>& factors, std::vector<FactorSums>& sums) {
  std::set<std::int64_t> cuts;
  for (const auto& run : factors) cuts.insert({run.begin, run.end});
  for (const auto& run : sums) cuts.insert({run.begin, run.end});

  std::vector<KroneckerFactors> factor_parts;
  std::vector<FactorSums> sum_parts;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    const auto begin = *cut;
    const auto end = *std::next(cut);
    for (const auto& run : factors) {
      if (run.begin == begin && run.end == end) {
        factor_parts.push_back(run);
      } else if (covers(run, begin, end) && run.a.size(0) == 1) {
        factor_parts.push_back(part_of(run, begin, end));
      }
    }
    bool first = true;
    for (const auto& run : sums) {
      if (!covers(run, begin, end)) continue;
      const auto part = run.begin == begin && run.end == end ? run : part_of(run, begin, end);
      if (std::exchange(first, false)) {
        sum_parts.push_back(part);
      } else {
        add(sum_parts.back().inputs, part.inputs);
        add(sum_parts.back().gradients, part.gradients);
        sum_parts.back().input_samples += part.input_samples;
        sum_parts.back().gradient_samples += part.gradient_samples;
      }
    }
  }
  factors = std::move(factor_parts);
  sums = std::move(sum_parts);
}

/// E[a aᵀ]: over rows, or over samples of sums over positions.
torch::Tensor input_mean(const FactorSums& sums, const FactorSettings& settings) {
  return settings.per_sample ? sums.inputs.sum / static_cast<double>(sums.input_samples)
                             : sums.inputs.mean();
}

/// E[s sᵀ] over rows, s the gradient of the mean loss or, times the batch size, of its sample's.
torch::Tensor gradient_mean(const FactorSums& sums, const FactorSettings& settings) {
  const auto scale = settings.per_sample ? static_cast<double>(sums.gradient_samples) : 1.0;
  return sums.gradients.mean() * (scale * scale);
}

torch::Tensor moved_average(const torch::Tensor& average, const torch::Tensor& mean, double beta2) {
  const auto previous = average.defined() ? average.to(mean.options()) : torch::zeros_like(mean);
  return previous * beta2 + mean * (1.0 - beta2);
}

}  // namespace

std::vector<KroneckerFactors> averaged(std::vector<KroneckerFactors> factors,
                                       std::vector<FactorSums> sums,
                                       const FactorSettings& settings) {
  const bool as_before = sums.size() == factors.size() &&
                         std::equal(factors.begin(), factors.end(), sums.begin(), same_rows);
  if (!as_before) align(factors, sums);
  for (const auto& observed : sums) {
    auto known = std::find_if(factors.begin(), factors.end(), [&](const KroneckerFactors& each) {
      return same_rows(each, observed);
    });
    const auto a_mean = input_mean(observed, settings);
    const bool fits = known != factors.end() && known->a.sizes() == a_mean.sizes();
    if (!fits) {
      KroneckerFactors fresh;
      fresh.begin = observed.begin;
      fresh.end = observed.end;
      if (known == factors.end()) {
        known = factors.insert(known, fresh);
      } else {
        *known = fresh;  // the bias was frozen or freed, or the groups changed
      }
    }
    known->a = moved_average(known->a, a_mean, settings.beta2);
    if (settings.with_gradients) {
      known->p = moved_average(known->p, gradient_mean(observed, settings), settings.beta2);
    }
    ++known->updates;
  }
  return factors;
}

// Results of LAPACK are column-major and files are not: contiguous, so that a product rounds the same
// before and after a state was saved.
torch::Tensor damped_inverse(const torch::Tensor& matrix, const torch::Tensor& damping,
                             InverseMethod method) {
  const auto m = matrix.to(torch::kFloat64);
  const auto delta = damping.to(m.options()).unsqueeze(-1);
  if (method == InverseMethod::Eigen) {
    const auto [values, vectors] = at::linalg_eigh(m);
    const auto scaled = vectors / (values.clamp_min(0.0) + delta).unsqueeze(-2);
    return scaled.matmul(vectors.transpose(-2, -1)).to(matrix.scalar_type()).contiguous();
  }
  const auto damped = m + torch::diag_embed(delta.expand({m.size(0), m.size(-1)}));
  return at::cholesky_inverse(at::linalg_cholesky(damped)).to(matrix.scalar_type()).contiguous();
}

}  // namespace adaact
