#pragma once

// The paper's CIFAR runs, without training.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact::testing {

using Accuracies = std::map<std::string, std::vector<double>>;  // by optimizer, of seeds 0, 1, …

inline RunHistory history_of(const RunConfig& config, double percent) {
  RunHistory history;
  history.config = config;
  history.finished = true;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    EpochMetrics metrics;
    metrics.epoch = epoch;
    metrics.test.top1 = percent / 100.0 - 0.001 * static_cast<double>(19 - epoch);
    metrics.seconds = 5.0 * static_cast<double>(epoch + 1);
    history.epochs.push_back(metrics);
  }
  return history;
}

/// Runs of one model, ResNet-20 on CIFAR-10 unless another is named; no others were carried out.
inline Found found_with(const Experiment& experiment, const Accuracies& accuracies,
                        const ExperimentForm& form = {}, const std::string& model = "resnet20") {
  Found found;
  for (const auto& planned : experiment.plan(form).runs) {
    found.runs.push_back({planned, std::nullopt});
    const auto& config = planned.config;
    const auto values = accuracies.find(config.optimizer);
    const bool is_there =
        config.model == model && values != accuracies.end() && config.seed < values->second.size();
    if (is_there) found.runs.back().history = history_of(config, values->second[config.seed]);
  }
  return found;
}

/// The accuracies of the paper with so many seeds, which hardly differ.
inline Accuracies as_in_the_paper(std::size_t seeds = 2) {
  Accuracies accuracies{{"adaact", {92.4, 92.5, 92.6}}, {"sgd", {92.6, 92.7, 92.8}},
                        {"adam", {91.3, 91.4, 91.5}},   {"adamw", {89.8, 89.9, 90.0}},
                        {"adan", {91.8, 91.9, 92.0}},   {"kfac", {92.7, 92.8, 92.9}},
                        {"foof", {91.7, 91.7, 91.8}}};
  for (auto& [optimizer, values] : accuracies) values.resize(seeds);
  return accuracies;
}

inline const Finding& finding_about(const std::string& part, const std::vector<Finding>& findings) {
  for (const auto& finding : findings) {
    if (finding.claim.find(part) != std::string::npos) return finding;
  }
  throw std::runtime_error("no finding about " + part);
}

}  // namespace adaact::testing
