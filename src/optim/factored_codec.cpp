#include "optim/factored_codec.h"

#include <utility>

namespace adaact {
namespace {

constexpr char kMomentum[] = "momentum_buffer";
constexpr char kRuns[] = "runs";  // (S, 3): begin, end, updates

/// The tensors of one run of rows under their names; those of run s are kept as "a.s".
template <typename Factors, typename Visitor>
void visit_tensors(Factors& factors, Visitor&& visit) {
  visit("a", factors.a);
  visit("p", factors.p);
  visit("a_inverse", factors.a_inverse);
  visit("p_inverse", factors.p_inverse);
  visit("a_vectors", factors.a_vectors);
  visit("a_values", factors.a_values);
  visit("p_vectors", factors.p_vectors);
  visit("p_values", factors.p_values);
}

std::string entry_of(const char* name, std::size_t run) {
  return std::string(name) + "." + std::to_string(run);
}

bool has_shape(const torch::Tensor& tensor, at::IntArrayRef sizes) {
  return !tensor.defined() || (tensor.is_floating_point() && tensor.sizes() == sizes);
}

bool fits(const KroneckerFactors& run, const torch::Tensor& weight) {
  const auto rows = run.end - run.begin;
  if (!run.a.defined() || run.a.dim() != 3 || rows % run.a.size(0) != 0) return false;
  const auto groups = run.a.size(0);
  const auto n = run.a.size(2);
  const auto r = rows / groups;
  const auto features = weight.numel() / weight.size(0);
  return (n == features || n == features + 1) && has_shape(run.a, {groups, n, n}) &&
         has_shape(run.p, {groups, r, r}) && has_shape(run.a_inverse, {groups, n, n}) &&
         has_shape(run.p_inverse, {groups, r, r}) && has_shape(run.a_vectors, {groups, n, n}) &&
         has_shape(run.a_values, {groups, n}) && has_shape(run.p_vectors, {groups, r, r}) &&
         has_shape(run.p_values, {groups, r}) && run.is_inverted();
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
  if (!has_shape(state->momentum_buffer(), weight.sizes())) {
    throw_misfit(kMomentum, parameter, source);
  }
  const auto runs = take(kRuns);
  if (runs.defined()) {
    if (runs.scalar_type() != torch::kInt64 || runs.dim() != 2 || runs.size(1) != 3 ||
        weight.dim() < 2) {
      throw_misfit(kRuns, parameter, source);
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
        throw_misfit(kRuns, parameter, source);
      }
      row = factors.end;
      visit_tensors(factors, [&](const char* name, torch::Tensor& tensor) {
        tensor = take(entry_of(name, static_cast<std::size_t>(s)));
      });
      if (!fits(factors, weight)) {
        throw_misfit(entry_of("a", static_cast<std::size_t>(s)), parameter, source);
      }
      state->factors().push_back(std::move(factors));
    }
  }
  if (!left.empty()) throw_unknown_entry(left.begin()->first, parameter, source);
  return state;
}

}  // namespace adaact
