#include <c10/util/Exception.h>

#include "experiments/paper/catalog.h"
#include "experiments/paper/rate_search.h"
#include "report/format.h"

namespace adaact {
namespace {

const SearchResult& result_named(const std::string& optimizer,
                                 const std::vector<SearchResult>& results) {
  for (const auto& result : results) {
    if (result.optimizer == optimizer) return result;
  }
  TORCH_CHECK(false, "adaact: no rate was searched for '", optimizer, "'");
}

/// Whether one optimizer is ahead of the two others, each at its best rate.
Finding ahead(const std::string& claim, const std::string& leader,
              const std::vector<std::string>& others, const std::vector<SearchResult>& results,
              OverSeeds (*accuracy)(const RunSeries&)) {
  const auto& leading = result_named(leader, results).best;
  auto measured = leading.name + " " + percent(accuracy(leading).mean);
  std::vector<Lead> leads;
  for (const auto& other : others) {
    const auto& series = result_named(other, results).best;
    measured += ", " + series.name + " " + percent(accuracy(series).mean);
    leads.push_back({leading.name + " and " + series.name, accuracy(leading) - accuracy(series)});
  }
  const auto [verdict, reason] = judge(leads);
  return {claim, measured + "." + reason, verdict};
}

std::vector<Finding> lenet_findings(const std::vector<SearchResult>& results) {
  return {
      ahead("AdaAct has a higher test accuracy than SGD with momentum and Adam, each at its best "
            "rate.",
            "adaact", {"sgd", "adam"}, results, final_over_seeds),
      ahead("Early in training Adam converges fastest of the three, each at the rate that is best "
            "in the end.",
            "adam", {"adaact", "sgd"}, results, early_over_seeds)};
}

RateSearch lenet_search() {
  RateSearch search;
  search.name = "lenet-rates";
  search.title = "LeNet-5 with searched learning rates";
  search.shows = "whether Figure 1's order of AdaAct, SGD and Adam is that of their best rates";
  search.paragraphs = {
      "Figures 1 and 8 compare LeNet-5 at rates that the paper does not tell; ours are those of "
      "its CIFAR table. Here each optimizer has five, a factor of about three apart, with the "
      "table's in the middle."};
  search.tasks = {{"cifar10", "lenet5"}};
  search.optimizers = {{"adaact", {0.01, 0.03, 0.1, 0.3, 1.0}},
                       {"sgd", {0.01, 0.03, 0.1, 0.3, 1.0}},
                       {"adam", {1e-4, 3e-4, 1e-3, 3e-3, 1e-2}}};
  search.findings = lenet_findings;
  return search;
}

}  // namespace

const Experiment& lenet_rates() {
  static const SearchedRatesExperiment experiment(lenet_search());
  return experiment;
}

}  // namespace adaact
