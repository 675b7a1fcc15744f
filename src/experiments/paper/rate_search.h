#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/page/curves.h"
#include "experiments/shelf/experiment.h"

namespace adaact {

/// The learning rates that an optimizer is tried with, from low to high.
struct SearchedRates {
  std::string optimizer;
  std::vector<double> rates;
};

/// What a search came to for one optimizer.
struct SearchResult {
  std::string optimizer;
  std::vector<RunSeries> by_rate;  // those that have runs, from the lowest rate to the highest
  RunSeries best;                  // by final test accuracy; without runs where there is none
  double best_rate = 0.0;
  bool is_at_edge = false;  // nothing lower, or nothing higher, was tried
};

/// What differs from one experiment to the next of those in which every optimizer has its learning rate searched,
/// with as many rates as the others.
struct RateSearch {
  struct Task {
    std::string dataset;
    std::string model;
  };
  std::string name;
  std::string title;
  std::string shows;
  std::vector<std::string> paragraphs;
  std::vector<Task> tasks;
  std::vector<SearchedRates> optimizers;
  std::int64_t epochs = 200;
  std::vector<std::uint64_t> seeds{0, 1, 2};
  /// The paper's claims about one task; null where it has none.
  std::vector<Finding> (*findings)(const std::vector<SearchResult>& results) = nullptr;
};

/// An experiment whose plan and page are made from its description.
class SearchedRatesExperiment : public Experiment {
 public:
  explicit SearchedRatesExperiment(RateSearch search) : search_(std::move(search)) {}

  std::string name() const override { return search_.name; }
  std::string title() const override { return search_.title; }
  std::string shows() const override { return search_.shows; }
  ExperimentPlan plan(const ExperimentForm& form) const override;
  void draw(const Found& found, Page& page) const override;
  std::vector<Finding> findings(const Found& found) const override;
  nlohmann::ordered_json to_json(const Found& found) const override;

 private:
  /// What was found of one task.
  struct TaskResult {
    RateSearch::Task task;
    std::vector<SearchResult> results;
    Found found;
  };
  std::vector<TaskResult> results_in(const Found& found) const;

  RateSearch search_;
};

}  // namespace adaact
