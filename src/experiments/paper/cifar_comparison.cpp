#include "experiments/paper/cifar_comparison.h"

#include <algorithm>
#include <utility>

#include "experiments/page/titles.h"
#include "experiments/paper/paper_runs.h"

namespace adaact {
namespace {

using Pair = std::pair<std::string, std::string>;  // data set and model

std::vector<Pair> pairs_of(const ExperimentForm& form) {
  if (form.quick) return {{dataset_of(form, "cifar10"), "resnet20"}};
  const std::vector<Pair> papers{{"cifar10", "resnet20"},
                                 {"cifar10", "resnet32"},
                                 {"cifar100", "resnet34"},
                                 {"cifar100", "densenet121"}};
  if (form.dataset.empty()) return papers;
  std::vector<Pair> pairs;
  for (const auto& pair : papers) {
    if (pair.first == form.dataset) pairs.push_back(pair);
  }
  if (!pairs.empty()) return pairs;
  return {{form.dataset, "resnet20"}, {form.dataset, "resnet32"}};
}

bool is_of(const CifarCell& cell, const RunConfig& config) {
  return cell.dataset == config.dataset && cell.model == config.model &&
         cell.optimizer == config.optimizer;
}

CifarColumn empty_column(const std::string& dataset, const std::string& model) {
  CifarColumn column;
  for (const auto& optimizer : paper_optimizers()) {
    column.push_back({dataset, model, optimizer, {}});
  }
  return column;
}

}  // namespace

ExperimentPlan cifar_comparison(const ExperimentForm& form,
                                const std::vector<std::uint64_t>& seeds) {
  ExperimentPlan plan;
  for (const auto& [dataset, model] : pairs_of(form)) {
    for (const auto& optimizer : paper_optimizers()) {
      for (const auto seed : seeds) {
        auto config = paper_run(optimizer, model, dataset, seed);
        if (form.quick) shrink(config);
        plan.runs.push_back({optimizer_title(optimizer), config, false});
      }
    }
  }
  return plan;
}

std::string CifarCell::title() const {
  return model_title(model) + " on " + dataset_title(dataset);
}

std::vector<CifarColumn> cifar_columns(const Found& found) {
  std::vector<CifarColumn> columns;
  for (const auto& run : found.runs) {
    const auto& config = run.planned.config;
    auto column = std::find_if(columns.begin(), columns.end(), [&](const CifarColumn& each) {
      return each.front().dataset == config.dataset && each.front().model == config.model;
    });
    if (column == columns.end()) {
      column = columns.insert(column, empty_column(config.dataset, config.model));
    }
    if (!run.history) continue;
    const auto cell = std::find_if(column->begin(), column->end(),
                                   [&](const CifarCell& each) { return is_of(each, config); });
    if (cell != column->end()) cell->runs.push_back(&*run.history);
  }
  return columns;
}

}  // namespace adaact
