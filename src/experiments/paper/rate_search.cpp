#include "experiments/paper/rate_search.h"

#include <algorithm>
#include <cmath>

#include <adaact/optim/registry.h>
#include <nlohmann/json.hpp>

#include "experiments/page/titles.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string series_name(const std::string& optimizer, double rate) {
  return optimizer_title(optimizer) + ", η = " + rounded(rate);
}

double rate_of(const RunConfig& config) {
  return json::parse(config.optimizer_options).at("lr").get<double>();
}

/// The paper's run with another rate; an optimizer that the CIFAR table does not have keeps its defaults.
RunConfig run_at_rate(const std::string& optimizer, const RateSearch::Task& task, double rate,
                      std::int64_t epochs, std::uint64_t seed) {
  const auto& papers = paper_optimizers();
  const bool is_papers = std::find(papers.begin(), papers.end(), optimizer) != papers.end();
  auto config = paper_run(is_papers ? optimizer : "sgd", task.model, task.dataset, seed);
  auto options = is_papers ? json::parse(config.optimizer_options) : json::object();
  options["lr"] = rate;
  config.optimizer = optimizer;
  config.optimizer_options = options.dump();
  config.epochs = epochs;
  return config;
}

bool is_of(const RateSearch::Task& task, const RunConfig& config) {
  return task.dataset == config.dataset && task.model == config.model;
}

SearchResult result_of(const std::string& optimizer, const Found& found) {
  SearchResult result;
  result.optimizer = optimizer;
  std::vector<double> rates;
  for (const auto& run : found.runs) {
    if (run.planned.config.optimizer != optimizer) continue;
    const auto rate = rate_of(run.planned.config);
    if (std::find(rates.begin(), rates.end(), rate) == rates.end()) rates.push_back(rate);
  }
  std::sort(rates.begin(), rates.end());
  const auto all = series_of(found);
  double best_top1 = 0.0;
  for (const double rate : rates) {
    const auto& series = series_named(series_name(optimizer, rate), all);
    if (series.runs.empty()) continue;
    result.by_rate.push_back(series);
    const double top1 = final_top1(series);
    if (!result.best.runs.empty() && !(top1 > best_top1)) continue;
    best_top1 = top1;
    result.best = series;
    result.best_rate = rate;
    result.is_at_edge = rate == rates.front() || rate == rates.back();
  }
  return result;
}

/// The best of each optimizer under one colour each, whatever its rate was.
std::vector<RunSeries> best_series(const std::vector<SearchResult>& results) {
  std::vector<RunSeries> series;
  for (const auto& result : results) {
    auto best = result.best;
    best.name = best.runs.empty() ? optimizer_title(result.optimizer) : best.name;
    best.style = series.size();
    series.push_back(std::move(best));
  }
  return series;
}

Table best_table(const std::vector<SearchResult>& results) {
  Table table{"At the best rate of each", {{text("Optimizer"), ""}}, {}};
  for (const char* heading : {"η", "Runs", "Final test top‑1", "First tenth", "Training time"}) {
    table.heading.push_back({text(heading), "number"});
  }
  const auto all = best_series(results);
  for (std::size_t index = 0; index < results.size(); ++index) {
    const auto& result = results[index];
    const auto& series = all[index];
    if (series.runs.empty()) {
      table.rows.push_back({series_cell(series)});
      table.rows.back().resize(table.heading.size(), number_cell(kNothing));
      continue;
    }
    const auto final = final_over_seeds(series);
    const auto seconds = fastest_training(series.runs);
    table.rows.push_back(
        {series_cell(series),
         number_cell(rounded(result.best_rate) + (result.is_at_edge ? ", at the edge" : "")),
         number_cell(count_text(series.runs)),
         number_cell(percent(final.mean) + (std::isfinite(final.standard_error)
                                                ? " ± " + percent(final.standard_error)
                                                : "")),
         number_cell(percent(early_over_seeds(series).mean)),
         number_cell(seconds ? duration(*seconds) : kNothing)});
  }
  return table;
}

Table rates_table(const std::vector<SearchResult>& results) {
  Table table{"At all rates that were tried",
              {{text("Optimizer"), ""}, {text("Final test top‑1"), "wide"}},
              {}};
  for (const auto& result : results) {
    std::string list;
    for (const auto& series : result.by_rate) {
      const auto rate = rounded(rate_of(series.runs.front()->config));
      const auto state = state_of(series);
      list += (list.empty() ? "" : "; ") + rate + ": " + percent(final_top1(series)) +
              (state.empty() ? "" : " (" + state + ")");
    }
    table.rows.push_back({{text(optimizer_title(result.optimizer)), ""},
                          {text(list.empty() ? kNothing : list), "wide"}});
  }
  return table;
}

}  // namespace

ExperimentPlan SearchedRatesExperiment::plan(const ExperimentForm& form) const {
  ExperimentPlan plan;
  for (auto task : search_.tasks) {
    task.dataset = dataset_of(form, task.dataset);
    for (const auto& [optimizer, rates] : search_.optimizers) {
      for (const double rate : rates) {
        for (const auto seed : seeds_of(form, search_.seeds)) {
          auto config = run_at_rate(optimizer, task, rate, search_.epochs, seed);
          if (form.quick) shrink(config);
          plan.runs.push_back({series_name(optimizer, rate), std::move(config), false});
        }
      }
    }
    // One data set in the place of several is one task.
    if (form.quick || !form.dataset.empty()) break;
  }
  return plan;
}

std::vector<SearchedRatesExperiment::TaskResult> SearchedRatesExperiment::results_in(
    const Found& found) const {
  std::vector<TaskResult> all;
  for (const auto& run : found.runs) {
    const auto& config = run.planned.config;
    auto of_task = std::find_if(all.begin(), all.end(),
                                [&](const TaskResult& each) { return is_of(each.task, config); });
    if (of_task == all.end()) {
      of_task = all.insert(all.end(), TaskResult{{config.dataset, config.model}, {}, {}});
    }
    of_task->found.runs.push_back(run);
  }
  for (auto& of_task : all) {
    for (const auto& searched : search_.optimizers) {
      of_task.results.push_back(result_of(searched.optimizer, of_task.found));
    }
  }
  return all;
}

void SearchedRatesExperiment::draw(const Found& found, Page& page) const {
  for (const auto& paragraph : search_.paragraphs) page.add_paragraph(paragraph);
  page.add_paragraph(
      "Every optimizer is trained with the same number of learning rates and the same seeds; its "
      "best rate is the one with the highest final test accuracy, in the mean of the seeds. That "
      "is chosen on the data that it is shown for, so each number is a little too high, and alike "
      "for all.",
      "note");
  for (const auto& [task, results, of_task] : results_in(found)) {
    if (of_task.is_empty()) continue;
    page.add_heading(model_title(task.model) + " on " + dataset_title(task.dataset));
    const auto best = best_series(results);
    const auto prefix = task.dataset + "_" + task.model;
    page.add_figures({page.figure(accuracy_plot(best, ImageSet::Test), prefix + "_epochs",
                                  "After each epoch, at the best rate of each."),
                      page.figure(accuracy_by_seconds_plot(best), prefix + "_seconds",
                                  "Of training, without evaluation; of the fastest run.")});
    page.add_table(best_table(results));
    page.add_table(rates_table(results));
  }
}

std::vector<Finding> SearchedRatesExperiment::findings(const Found& found) const {
  if (search_.findings == nullptr) return {};
  std::vector<Finding> all;
  for (const auto& [task, results, of_task] : results_in(found)) {
    for (auto& finding : open_until_complete(of_task, search_.findings(results))) {
      all.push_back(std::move(finding));
    }
  }
  return all;
}

ordered_json SearchedRatesExperiment::to_json(const Found& found) const {
  auto list = ordered_json::array();
  for (const auto& [task, results, of_task] : results_in(found)) {
    for (const auto& result : results) {
      auto rates = ordered_json::array();
      for (const auto& series : result.by_rate) rates.push_back(accuracy_json(series));
      ordered_json object{{"dataset", task.dataset},
                          {"model", task.model},
                          {"optimizer", result.optimizer},
                          {"best_lr", nullptr},
                          {"is_at_edge", result.is_at_edge},
                          {"final_test_top1", nullptr},
                          {"seconds", nullptr},
                          {"rates", rates}};
      if (!result.best.runs.empty()) {
        object["best_lr"] = result.best_rate;
        object["final_test_top1"] = final_top1(result.best);
        if (const auto seconds = fastest_training(result.best.runs)) object["seconds"] = *seconds;
      }
      list.push_back(std::move(object));
    }
  }
  return {{"optimizers", list}};
}

}  // namespace adaact
