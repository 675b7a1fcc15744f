#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/page/curves.h"
#include "experiments/shelf/experiment.h"

namespace adaact {

/// The paper's run of an optimizer with some options changed.
struct ComparedSetting {
  std::string series;
  std::string optimizer;
  nlohmann::json changed_options = nlohmann::json::object();
};

/// What differs from one experiment to the next of those that hold settings of one model on one data set against
/// each other.
struct SettingsComparison {
  std::string name;
  std::string title;
  std::string shows;
  std::string file_prefix;  // of the figures
  std::vector<std::string> paragraphs;
  std::string model = "resnet20";
  std::string dataset = "cifar10";
  std::int64_t epochs = 200;
  std::vector<std::uint64_t> seeds{0, 1, 2};
  std::vector<ComparedSetting> settings;  // the first is what others are measured against
  bool shows_cost = false;                // what accuracy beyond the first's costs
  std::vector<Finding> (*findings)(const std::vector<RunSeries>& all) = nullptr;
};

/// An experiment whose plan and page are made from its description.
class ComparedSettings : public Experiment {
 public:
  explicit ComparedSettings(SettingsComparison comparison) : comparison_(std::move(comparison)) {}

  std::string name() const override { return comparison_.name; }
  std::string title() const override { return comparison_.title; }
  std::string shows() const override { return comparison_.shows; }
  ExperimentPlan plan(const ExperimentForm& form) const override;
  void draw(const Found& found, Page& page) const override;
  std::vector<Finding> findings(const Found& found) const override;
  nlohmann::ordered_json to_json(const Found& found) const override;

 private:
  SettingsComparison comparison_;
};

}  // namespace adaact
