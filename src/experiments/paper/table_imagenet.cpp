#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "experiments/page/curves.h"
#include "experiments/page/titles.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/imagenet_recipe.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"
#include "report/format.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr char kImageNet[] =
    "ImageNet (ILSVRC 2012) as folders train/ and val/, with a folder of images for each of its "
    "1,000 classes in either; --quick takes any images that lie so";
constexpr std::int64_t kClassesOfImageNet = 1000;
/// The paper has one run of each: closer than this, in points of per cent, counts as the same.
constexpr double kSame = 0.5;

/// Top-1 in per cent. All but AdaAct's are numbers that the paper takes from the Adan paper.
struct PaperRow {
  std::string optimizer;
  std::vector<double> accuracies;  // of each model
};

/// A table of the paper and the runs that it is made of. Of the runs the paper's authors did AdaAct's
/// alone, and so do we.
struct ImageNetTable {
  std::string name;
  std::string title;
  std::string shows;
  std::vector<std::string> models;
  std::vector<PaperRow> rows;
  RunConfig recipe;
};

ImageNetTable resnet_table() {
  return {"table-imagenet-resnet",
          "Table 2: ResNet-50 and ResNet-101 on ImageNet",
          "top-1 accuracy of ResNet-50 and ResNet-101 after 100 epochs",
          {"resnet50", "resnet101"},
          {{"adaact", {77.6, 79.4}},
           {"sgd", {77.0, 79.3}},
           {"adam", {76.9, 78.4}},
           {"adamw", {77.0, 78.9}},
           {"lamb", {77.0, 79.4}},
           {"sam", {77.3, 79.5}}},
          imagenet_resnet_recipe()};
}

ImageNetTable vit_table() {
  return {
      "table-imagenet-vit",
      "Table 3: ViT-S on ImageNet",
      "top-1 accuracy of ViT-S after 150 epochs",
      {"vit_small"},
      {{"adaact", {73.8}}, {"sgd", {68.7}}, {"adam", {64.0}}, {"adamw", {78.9}}, {"lamb", {73.8}}},
      imagenet_vit_recipe()};
}

/// What there is of one optimizer and one model.
struct ImageNetCell {
  std::string model;
  std::string optimizer;
  double papers = 0.0;                  // per cent
  std::vector<const RunHistory*> runs;  // of the seeds that were carried out

  /// Per cent; nothing where no run is there, or one diverged, which has no accuracy.
  std::optional<MeanAndError> accuracy() const {
    std::vector<double> values;
    for (const auto* run : runs) values.push_back(100.0 * final_top1_of_run(*run));
    const bool all_numbers = std::all_of(values.begin(), values.end(),
                                         [](double value) { return std::isfinite(value); });
    if (values.empty() || !all_numbers) return std::nullopt;
    return mean_and_error(values);
  }

  std::string accuracy_text() const {
    const auto ours = accuracy();
    if (!ours) return kNothing;
    return percent(MeanAndError{ours->mean / 100.0, ours->standard_error / 100.0});
  }
};

std::vector<const RunHistory*> runs_of(const Found& found, const std::string& model,
                                       const std::string& optimizer) {
  std::vector<const RunHistory*> runs;
  for (const auto& run : found.runs) {
    const auto& config = run.planned.config;
    const bool is_one = config.model == model && config.optimizer == optimizer;
    if (is_one && run.history) runs.push_back(&*run.history);
  }
  return runs;
}

class TableImageNet : public Experiment {
 public:
  explicit TableImageNet(ImageNetTable table) : table_(std::move(table)) {}

  std::string name() const override { return table_.name; }
  std::string title() const override { return table_.title; }
  std::string shows() const override { return table_.shows; }

  /// A quick form trains the smallest of the models.
  ExperimentPlan plan(const ExperimentForm& form) const override {
    TORCH_CHECK(form.dataset.empty(), "dataset is '", form.dataset,
                "', expected none: ", table_.name,
                " is of ImageNet, or of the images in --data-dir");
    ExperimentPlan plan;
    for (const auto& model : table_.models) {
      for (const auto seed : seeds_of(form, {0})) {
        auto config = table_.recipe;
        config.model = model;
        config.seed = seed;
        if (form.quick) shrink_imagenet_recipe(config);
        plan.runs.push_back({optimizer_title(config.optimizer), config, false});
      }
      if (form.quick) break;
    }
    plan.wanted_data = kImageNet;
    plan.wanted_classes = form.quick ? 0 : kClassesOfImageNet;
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    Table table{"Top-1 accuracy", {{text("Optimizer"), ""}}, {}};
    for (const auto& model : table_.models) {
      table.heading.push_back({text(model_title(model)), "number"});
      table.heading.push_back({text("paper"), "number"});
    }
    for (const auto& row : table_.rows) {
      table.rows.push_back({{text(optimizer_title(row.optimizer)), ""}});
    }
    for (const auto& cell : cells(found)) {
      const auto row = std::find_if(table_.rows.begin(), table_.rows.end(), [&](const auto& each) {
        return each.optimizer == cell.optimizer;
      });
      add_cells(cell, table.rows.at(static_cast<std::size_t>(row - table_.rows.begin())));
    }
    page.add_table(table);
    page.add_paragraph(
        "Top-1 after the last epoch; AdaAct alone is trained here. The paper's other numbers are "
        "those of the Adan paper (Xie et al., 2023), of other recipes. Taken for the same accuracy "
        "as the paper's: within half a point.",
        "note");
    page.add_heading("Settings of the paper");
    page.add_table(imagenet_settings(table_.recipe));
    page.add_paragraph(std::string("To be trained it needs --data-dir: ") + kImageNet + ".",
                       "note");
  }

  /// Of AdaAct alone: the numbers of its rivals are of other recipes.
  std::vector<Finding> findings(const Found& found) const override {
    std::vector<Finding> all;
    for (const auto& cell : cells(found)) {
      if (cell.runs.empty()) continue;
      const auto ours = cell.accuracy();
      const bool agrees = ours && std::abs(ours->mean - cell.papers) <= kSame;
      const auto divergence = divergence_text(cell.runs);
      all.push_back({optimizer_title(cell.optimizer) + ", " + model_title(cell.model) + ": " +
                         percent(cell.papers / 100.0),
                     divergence.empty() ? cell.accuracy_text() : divergence, verdict_if(agrees)});
    }
    return all;
  }

  ordered_json to_json(const Found& found) const override {
    auto list = ordered_json::array();
    for (const auto& cell : cells(found)) {
      ordered_json object{{"model", cell.model}, {"optimizer", cell.optimizer},
                          {"top1", nullptr},     {"seeds", ordered_json::array()},
                          {"seconds", nullptr},  {"paper", cell.papers}};
      if (const auto ours = cell.accuracy()) object["top1"] = ours->mean;
      object["seeds"] = seeds_in(cell.runs);
      if (const auto seconds = fastest_training(cell.runs)) object["seconds"] = *seconds;
      list.push_back(object);
    }
    return list;
  }

 private:
  /// All cells, by row and then by model, as in the paper.
  std::vector<ImageNetCell> cells(const Found& found) const {
    std::vector<ImageNetCell> all;
    for (const auto& row : table_.rows) {
      for (std::size_t index = 0; index < table_.models.size(); ++index) {
        const auto& model = table_.models[index];
        all.push_back(
            {model, row.optimizer, row.accuracies.at(index), runs_of(found, model, row.optimizer)});
      }
    }
    return all;
  }

  static void add_cells(const ImageNetCell& cell, std::vector<Cell>& row) {
    row.push_back({text(cell.accuracy_text()), "number"});
    const auto add_note = [&](const std::string& note) {
      if (!note.empty()) row.back().content += element("span", {{"class", "state"}}, text(note));
    };
    add_note(divergence_text(cell.runs));
    if (const auto seconds = fastest_training(cell.runs)) add_note(duration(*seconds));
    row.push_back({text(percent(cell.papers / 100.0)), "number"});
  }

  ImageNetTable table_;
};

}  // namespace

const Experiment& table_imagenet_resnet() {
  static const TableImageNet experiment(resnet_table());
  return experiment;
}

const Experiment& table_imagenet_vit() {
  static const TableImageNet experiment(vit_table());
  return experiment;
}

}  // namespace adaact
