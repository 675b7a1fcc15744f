#include "optim/kronecker/kronecker_factors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "moments/symmetric_eigen.h"

namespace adaact {
namespace {

/// The part of a square block (1, r, r) for rows [begin, end) of its run.
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

void add_if_measured(Moment& total, const Moment& moment) {
  if (!moment.sum.defined()) return;  // FOOF has no gradients
  total.sum = total.sum + moment.sum;
  total.count += moment.count;
}

template <typename Run>
bool is_exactly(const Run& run, std::int64_t begin, std::int64_t end) {
  return run.begin == begin && run.end == end;
}

/// Cuts runs of rows where any of them begins or ends, and adds up sums of the same rows. A run with
/// groups cannot be cut and is dropped: its factors start anew.
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
      if (is_exactly(run, begin, end)) {
        factor_parts.push_back(run);
      } else if (covers(run, begin, end) && run.a.size(0) == 1) {
        factor_parts.push_back(part_of(run, begin, end));
      }
    }
    FactorSums* total = nullptr;
    for (const auto& run : sums) {
      const bool whole = is_exactly(run, begin, end);
      if (!covers(run, begin, end) || (!whole && run.inputs.sum.size(0) != 1)) continue;
      auto part = whole ? run : part_of(run, begin, end);
      if (total == nullptr) {
        total = &sum_parts.emplace_back(std::move(part));
      } else if (total->inputs.sum.sizes() == part.inputs.sum.sizes()) {
        add_if_measured(total->inputs, part.inputs);
        add_if_measured(total->gradients, part.gradients);
        total->samples += part.samples;
      }
    }
  }
  factors = std::move(factor_parts);
  sums = std::move(sum_parts);
}

/// E[a aᵀ]: over rows, or over samples of sums over positions.
torch::Tensor input_mean(const FactorSums& sums, const FactorSettings& settings) {
  return settings.per_sample ? sums.inputs.sum / static_cast<double>(sums.samples)
                             : sums.inputs.mean();
}

/// E[s sᵀ] over rows, s the gradient of the mean loss or, times the batch size, of its sample's.
torch::Tensor gradient_mean(const FactorSums& sums, const FactorSettings& settings) {
  const auto scale = settings.per_sample ? static_cast<double>(sums.samples) : 1.0;
  return sums.gradients.mean() * (scale * scale);
}

/// What an average of matrices (g, n, n) was before the first of them.
torch::Tensor start_of_average(const torch::Tensor& mean, const FactorSettings& settings) {
  if (!settings.starts_at_identity) return torch::zeros_like(mean);
  return torch::eye(mean.size(-1), mean.options()).expand_as(mean);
}

torch::Tensor moved_average(const torch::Tensor& average, const torch::Tensor& mean,
                            const FactorSettings& settings) {
  const auto previous =
      average.defined() ? average.to(mean.options()) : start_of_average(mean, settings);
  return previous * settings.beta2 + mean * (1.0 - settings.beta2);
}

}  // namespace

std::vector<KroneckerFactors> averaged(std::vector<KroneckerFactors> factors,
                                       std::vector<FactorSums> sums,
                                       const FactorSettings& settings) {
  const bool as_before = sums.size() == factors.size() &&
                         std::equal(factors.begin(), factors.end(), sums.begin(), same_rows);
  if (!as_before) align(factors, sums);
  for (const auto& observed : sums) {
    const auto a_mean = input_mean(observed, settings);
    // Runs are kept in order.
    auto known = std::find_if(factors.begin(), factors.end(), [&](const KroneckerFactors& each) {
      return each.begin >= observed.begin;
    });
    if (known == factors.end() || !same_rows(*known, observed)) {
      known = factors.insert(known, KroneckerFactors());
    } else if (known->a.sizes() != a_mean.sizes()) {
      *known = KroneckerFactors();  // the bias was frozen or freed, or the groups changed
    }
    known->begin = observed.begin;
    known->end = observed.end;
    known->a = moved_average(known->a, a_mean, settings);
    if (settings.with_gradients) {
      known->p = moved_average(known->p, gradient_mean(observed, settings), settings);
    }
    ++known->updates;
  }
  return factors;
}

// Results of LAPACK are column-major and files are not: contiguous, so that a product rounds the same
// before and after a state was saved.
torch::Tensor damped_inverse(const torch::Tensor& matrix, const torch::Tensor& damping,
                             InverseMethod method, const std::string& owner) {
  const auto delta = damping.to(matrix.device(), torch::kFloat64).unsqueeze(-1);  // (g, 1)
  if (method == InverseMethod::Eigen) {
    const auto [values, vectors] = symmetric_eigen(matrix);
    return rebuilt(vectors, (values + delta).reciprocal()).to(matrix.scalar_type()).contiguous();
  }
  const auto diagonal = torch::diag_embed(delta.expand({matrix.size(0), matrix.size(-1)}));
  const auto [lower, failures] = at::linalg_cholesky_ex(matrix.to(torch::kFloat64) + diagonal);
  TORCH_CHECK(failures.eq(0).all().item<bool>(), owner, " is not positive definite with damping ",
              damping.min().item<double>(), "; more damping, or inverse \"eigen\", helps");
  return at::cholesky_inverse(lower).to(matrix.scalar_type()).contiguous();
}

}  // namespace adaact
