#include "optim/kronecker/factored_codec.h"

#include <utility>

namespace adaact {
namespace {

constexpr char kMomentum[] = "momentum_buffer";
constexpr char kRuns[] = "runs";  // (S, 3): begin, end, updates

/// Tensors of run s are kept as "a.s".
std::string entry_of(const char* name, std::size_t run) {
  return std::string(name) + "." + std::to_string(run);
}

bool has_shape(const torch::Tensor& tensor, at::IntArrayRef sizes) {
  return tensor.is_floating_point() && tensor.sizes() == sizes;
}

/// The shape that an entry of a run must have: that of A, of P or of their eigenvalues.
std::vector<std::int64_t> expected_shape(const std::string& name, const KroneckerFactors& run) {
  const auto groups = run.a.size(0);
  const auto size = name[0] == 'a' ? run.a.size(-1) : (run.end - run.begin) / groups;
  if (name == "a_values" || name == "p_values") return {groups, size};
  return {groups, size, size};
}

bool is_input_factor(const torch::Tensor& a, std::int64_t rows, const torch::Tensor& weight) {
  const auto features = weight.numel() / weight.size(0);
  return a.dim() == 3 && a.size(0) > 0 && rows % a.size(0) == 0 &&
         (a.size(2) == features || a.size(2) == features + 1);
}

}  // namespace

StateEntries factored_entries(const FactoredParamState& state) {
  StateEntries entries;
  if (state.momentum_buffer().defined()) {
    entries[kMomentum] = state.momentum_buffer().detach().clone();
  }
  const auto& factors = state.factors();
  if (factors.empty()) return entries;
  auto runs = torch::empty({static_cast<std::int64_t>(factors.size()), 3}, torch::kInt64);
  auto rows = runs.accessor<std::int64_t, 2>();
  for (std::size_t s = 0; s < factors.size(); ++s) {
    const auto row = static_cast<std::int64_t>(s);
    rows[row][0] = factors[s].begin;
    rows[row][1] = factors[s].end;
    rows[row][2] = factors[s].updates;
    visit_tensors(factors[s], [&](const char* name, const torch::Tensor& tensor) {
      if (tensor.defined()) entries[entry_of(name, s)] = tensor.detach().clone();
    });
  }
  entries[kRuns] = runs;
  return entries;
}

std::unique_ptr<FactoredParamState> factored_state_from(const StateEntries& entries,
                                                        const NamedParameter& parameter,
                                                        const std::string& source) {
  const auto& weight = parameter.tensor;
  auto left = entries;
  const auto take = [&left](const std::string& entry) {
    const auto found = left.find(entry);
    if (found == left.end()) return torch::Tensor();
    auto tensor = found->second.clone();
    left.erase(found);
    return tensor;
  };
  auto state = std::make_unique<FactoredParamState>();
  state->momentum_buffer(take(kMomentum));
  const auto& momentum = state->momentum_buffer();
  if (momentum.defined() && !has_shape(momentum, weight.sizes())) {
    throw_misfit(kMomentum, momentum, parameter, source);
  }
  const auto runs = take(kRuns);
  if (runs.defined()) {
    if (runs.scalar_type() != torch::kInt64 || runs.dim() != 2 || runs.size(1) != 3 ||
        weight.dim() < 2 || weight.numel() == 0) {
      throw_misfit(kRuns, runs, parameter, source);
    }
    const auto rows = runs.accessor<std::int64_t, 2>();
    std::int64_t row = 0;
    for (std::int64_t s = 0; s < runs.size(0); ++s) {
      KroneckerFactors factors;
      factors.begin = rows[s][0];
      factors.end = rows[s][1];
      factors.updates = rows[s][2];
      if (factors.begin < row || factors.begin >= factors.end || factors.end > weight.size(0) ||
          factors.updates < 1) {
        throw_misfit(kRuns, runs, parameter, source);
      }
      row = factors.end;
      const auto run = static_cast<std::size_t>(s);
      visit_tensors(factors, [&](const char* name, torch::Tensor& tensor) {
        tensor = take(entry_of(name, run));
      });
      if (!factors.a.defined()) throw_missing_entry(entry_of("a", run), parameter, source);
      if (!is_input_factor(factors.a, factors.end - factors.begin, weight)) {
        throw_misfit(entry_of("a", run), factors.a, parameter, source);
      }
      visit_tensors(factors, [&](const char* name, const torch::Tensor& tensor) {
        if (tensor.defined() && !has_shape(tensor, expected_shape(name, factors))) {
          throw_misfit(entry_of(name, run), tensor, parameter, source);
        }
      });
      const bool has_eigenvalues = factors.a_vectors.defined() == factors.a_values.defined() &&
                                   factors.p_vectors.defined() == factors.p_values.defined();
      const bool has_both =
          !factors.p.defined() || factors.p_inverse.defined() == factors.a_inverse.defined();
      if (!factors.is_inverted() || !has_eigenvalues || !has_both) {
        throw_missing_entry(entry_of("a_inverse", run), parameter, source);
      }
      state->factors().push_back(std::move(factors));
    }
  }
  if (!left.empty()) throw_unknown_entry(left.begin()->first, parameter, source);
  return state;
}

}  // namespace adaact
