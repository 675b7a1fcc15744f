#include "optim/kronecker/factors_of_ranks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "optim/kronecker/kronecker_factors.h"

namespace adaact {
namespace {

/// What an entry says of some rows of a weight: the last number of its key.
enum class SaysOfFactor : std::int64_t { Inputs, Gradients, Samples };

using FactorKey = std::vector<std::int64_t>;

/// The key of an entry without its last number, which is what the entry says.
FactorKey key_of(const FactorSums& sums) {
  return {static_cast<std::int64_t>(sums.weight),
          sums.begin,
          sums.end,
          sums.inputs.sum.size(0),
          sums.inputs.sum.size(-1),
          static_cast<std::int64_t>(sums.of_returned_gradients)};
}

std::vector<SharedSums::Entry> entries_of(const std::vector<FactorSums>& all_sums) {
  std::vector<SharedSums::Entry> entries;
  for (const auto& sums : all_sums) {
    const auto add = [&](SaysOfFactor what, const Moment& moment) {
      auto key = key_of(sums);
      key.push_back(static_cast<std::int64_t>(what));
      entries.push_back({std::move(key), moment.sum, moment.count});
    };
    add(SaysOfFactor::Inputs, sums.inputs);
    if (sums.gradients.sum.defined()) add(SaysOfFactor::Gradients, sums.gradients);
    add(SaysOfFactor::Samples, {torch::Tensor(), sums.samples});
  }
  return entries;
}

/// Ranks that compute in different dtypes have entries of their own.
void add_entry(Moment& total, const SharedSums::Entry& entry) {
  total.sum = total.sum.defined() ? total.sum + entry.sum : entry.sum;
  total.count += entry.count;
}

std::vector<FactorSums> factor_sums_from(const std::vector<SharedSums::Entry>& entries) {
  std::vector<FactorSums> all_sums;
  FactorKey last;
  for (const auto& entry : entries) {
    const FactorKey key(entry.key.begin(), entry.key.end() - 1);
    if (key != last) {
      auto& sums = all_sums.emplace_back();
      sums.weight = static_cast<std::size_t>(key[0]);
      sums.begin = key[1];
      sums.end = key[2];
      sums.of_returned_gradients = key[5] != 0;
      last = key;
    }
    auto& sums = all_sums.back();
    switch (static_cast<SaysOfFactor>(entry.key.back())) {
      case SaysOfFactor::Inputs:
        add_entry(sums.inputs, entry);
        break;
      case SaysOfFactor::Gradients:
        add_entry(sums.gradients, entry);
        break;
      case SaysOfFactor::Samples:
        sums.samples += entry.count;
        break;
    }
  }
  return all_sums;
}

/// As FactorListener does it on each rank: gradients that were returned count where no rank has added to the weight's
/// own.
void drop_returned_where_added(std::vector<FactorSums>& all_sums) {
  std::set<std::size_t> added;
  for (const auto& sums : all_sums) {
    if (!sums.of_returned_gradients) added.insert(sums.weight);
  }
  all_sums.erase(std::remove_if(all_sums.begin(), all_sums.end(),
                                [&](const FactorSums& sums) {
                                  return sums.of_returned_gradients && added.count(sums.weight) > 0;
                                }),
                 all_sums.end());
}

/// How long inverses or eigendecompositions take, in proportion to those of other factors.
double cost_of(const KroneckerFactors& factors) {
  const auto cubed = [](const torch::Tensor& matrix) {
    if (!matrix.defined()) return 0.0;
    const auto n = static_cast<double>(matrix.size(-1));
    return static_cast<double>(matrix.size(0)) * n * n * n;
  };
  return cubed(factors.a) + cubed(factors.p);
}

/// What was computed of the factors at place `i` of those that are due.
void add_entries(std::vector<SharedSums::Entry>& entries, std::size_t i,
                 const KroneckerFactors& factors) {
  std::int64_t part = 0;
  visit_refreshed(factors, [&](const char* /*name*/, const torch::Tensor& tensor) {
    if (tensor.defined()) entries.push_back({{static_cast<std::int64_t>(i), part}, tensor, 1});
    ++part;
  });
}

}  // namespace

std::vector<FactorSums> sums_of_ranks(SharedSums& ranks,
                                      const std::function<std::vector<FactorSums>()>& own,
                                      const std::vector<bool>& due) {
  auto all_sums = factor_sums_from(ranks.add_up([&] { return entries_of(own()); }, due));
  drop_returned_where_added(all_sums);
  return all_sums;
}

void invert_on_ranks(SharedSums& ranks, const std::vector<DueFactors>& due,
                     const std::function<void(const DueFactors&)>& invert) {
  if (due.empty()) return;  // on all ranks
  std::vector<double> costs;
  std::vector<bool> occasion;
  for (const auto& each : due) {
    costs.push_back(cost_of(*each.factors));
    occasion.resize(std::max(occasion.size(), each.weight + 1));
    occasion[each.weight] = true;
    visit_refreshed(*each.factors,
                    [](const char* /*name*/, torch::Tensor& tensor) { tensor = torch::Tensor(); });
  }
  const auto rank_of = dealt_out(costs, ranks.ranks().size());
  const auto own_share = [&] {
    std::vector<SharedSums::Entry> entries;
    for (std::size_t i = 0; i < due.size(); ++i) {
      if (rank_of[i] != ranks.ranks().rank()) continue;
      invert(due[i]);
      add_entries(entries, i, *due[i].factors);
    }
    return entries;
  };
  for (const auto& entry : ranks.add_up(own_share, occasion)) {
    auto part = entry.key[1];
    visit_refreshed(*due[static_cast<std::size_t>(entry.key[0])].factors,
                    [&](const char* /*name*/, torch::Tensor& tensor) {
                      if (part-- == 0) tensor = entry.sum;
                    });
  }
}

}  // namespace adaact
