#include "optim/kronecker/factored_codec.h"

#include <string>
#include <utility>
#include <vector>

namespace adaact {
namespace {

constexpr char kMomentum[] = "momentum_buffer";
constexpr char kRuns[] = "runs";  // (S, 3): begin, end, updates

/// Tensors of run s are kept as "a.s".
std::string entry_of(const char* name, std::size_t run) {
  return std::string(name) + "." + std::to_string(run);
}

/// Reads the factors of one run of rows.
class RunReader {
 public:
  RunReader(EntryReader& entries, std::size_t run) : entries_(entries), run_(run) {}

  KroneckerFactors read(const RowSegment& rows, FactorKinds kinds) {
    KroneckerFactors factors;
    factors.begin = rows.begin;
    factors.end = rows.end;
    factors.updates = rows.observations;
    factors.a = input_factor(rows.end - rows.begin);
    const auto groups = factors.a.size(0);
    const auto inputs = factors.a.size(-1);
    const auto outputs = (rows.end - rows.begin) / groups;
    if (kinds == FactorKinds::A) {
      factors.a_inverse = matrices("a_inverse", groups, inputs);
      return factors;
    }
    factors.p = matrices("p", groups, outputs, covariances());
    if (entries_.has(entry_of("a_vectors", run_))) {
      factors.a_vectors = matrices("a_vectors", groups, inputs);
      factors.a_values = values("a_values", groups, inputs);
      factors.p_vectors = matrices("p_vectors", groups, outputs);
      factors.p_values = values("p_values", groups, outputs);
    } else {
      factors.a_inverse = matrices("a_inverse", groups, inputs);
      factors.p_inverse = matrices("p_inverse", groups, outputs);
    }
    return factors;
  }

 private:
  /// A (g, n, n): of groups that divide the rows, and with n inputs, or n + 1 with a bias.
  torch::Tensor input_factor(std::int64_t rows) {
    const auto entry = entry_of("a", run_);
    if (!entries_.has(entry)) entries_.throw_missing(entry);
    const auto& weight = entries_.parameter().tensor;
    const auto features = weight.numel() / weight.size(0);
    const auto saved = entries_.shape(entry);
    const bool has_groups = saved.size() == 3 && saved[0] > 0 && rows % saved[0] == 0;
    const bool has_bias = saved.size() == 3 && saved[2] == features + 1;
    return matrices("a", has_groups ? saved[0] : 1, has_bias ? features + 1 : features,
                    covariances());
  }
  torch::Tensor matrices(const char* name, std::int64_t groups, std::int64_t size,
                         const EntryRule& rule = any_values()) {
    return entries_.tensor(entry_of(name, run_), {groups, size, size}, rule);
  }
  torch::Tensor values(const char* name, std::int64_t groups, std::int64_t size) {
    return entries_.tensor(entry_of(name, run_), {groups, size}, second_moments());
  }

  EntryReader& entries_;
  std::size_t run_;
};

}  // namespace

StateEntries factored_entries(const FactoredParamState& state) {
  StateEntries entries;
  if (state.momentum_buffer().defined()) {
    entries[kMomentum] = state.momentum_buffer().detach().clone();
  }
  const auto& factors = state.factors();
  if (factors.empty()) return entries;
  std::vector<RowSegment> runs;
  for (std::size_t s = 0; s < factors.size(); ++s) {
    runs.push_back({factors[s].begin, factors[s].end, factors[s].updates});
    visit_tensors(factors[s], [&](const char* name, const torch::Tensor& tensor) {
      if (tensor.defined()) entries[entry_of(name, s)] = tensor.detach().clone();
    });
  }
  entries[kRuns] = runs_to_tensor(runs);
  return entries;
}

std::unique_ptr<FactoredParamState> factored_state_from(EntryReader& entries, FactorKinds kinds) {
  const auto& weight = entries.parameter().tensor;
  auto state = std::make_unique<FactoredParamState>();
  state->momentum_buffer(entries.tensor(kMomentum, any_values().or_absent()));
  const bool may_have_factors = weight.dim() >= 2 && weight.numel() > 0;
  const auto runs = entries.runs(kRuns, may_have_factors ? weight.size(0) : 0);
  if (runs.empty() && entries.has(entry_of("a", 0))) entries.throw_missing(kRuns);
  for (std::size_t s = 0; s < runs.size(); ++s) {
    state->factors().push_back(RunReader(entries, s).read(runs[s], kinds));
  }
  return state;
}

}  // namespace adaact
