#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "experiments/page/titles.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr char kObstacle[] =
    "the recipe has random resized crops, RandAugment, mixup and CutMix, and for ViT-S random "
    "erasing, which this version does not have";

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
  std::vector<std::pair<std::string, std::string>> augmentation;
};

/// The settings that a run would have, those that this version knows and those that it does not.
Table settings_table(const ImageNetTable& table) {
  const auto options = ordered_json::parse(table.recipe.optimizer_options);
  std::vector<std::pair<std::string, std::string>> settings{
      {"Optimizer", optimizer_title(table.recipe.optimizer)},
      {"Learning rate", options.at("lr").dump()},
      {"Weight decay", options.at("weight_decay").dump() + ", not of biases and normalisation"},
      {"Batch",
       std::to_string(table.recipe.batch_size) + " × " + std::to_string(table.recipe.accumulation)},
      {"Epochs", std::to_string(table.recipe.epochs)},
      {"Schedule", table.recipe.schedule + ", " + std::to_string(table.recipe.warmup_epochs) +
                       " epochs of warm-up"},
      {"Drop-path", rounded(table.recipe.drop_path)},
      {"Label smoothing", rounded(table.recipe.label_smoothing)},
      {"Evaluation", "resized to " + std::to_string(table.recipe.resize_size) +
                         ", centre crop of " + std::to_string(table.recipe.image_size)}};
  settings.insert(settings.end(), table.augmentation.begin(), table.augmentation.end());
  Table markup{"Settings", {{text("Setting"), ""}, {text("Value"), "wide"}}, {}};
  for (const auto& [name, value] : settings) {
    markup.rows.push_back({{text(name), ""}, {text(value), "wide"}});
  }
  return markup;
}

/// Augmentation that the recipes of both tables have.
constexpr std::pair<const char*, const char*> kCrops{"Random resized crop",
                                                     "scale 0.08 to 1, ratio 3/4 to 4/3; flip"};
constexpr std::pair<const char*, const char*> kRandAugment{"RandAugment",
                                                           "magnitude 7 ± 0.5, two operations"};

/// What the recipes of both tables have in common: batches of 2048, made of eight that a GPU can
/// hold, and the cosine. `setting` is that of AdaAct in configs/.
RunConfig common_recipe(const std::string& setting) {
  const auto adaact = paper_setting("adaact", setting);
  RunConfig config;
  config.dataset = "image-folder";
  config.image_size = 224;
  config.batch_size = 256;
  config.accumulation = 8;
  config.optimizer = adaact.optimizer;
  config.optimizer_options = adaact.options;
  config.decay_vectors = adaact.decay == DecayRule::Everything;
  config.schedule = "cosine";
  return config;
}

ImageNetTable resnet_table() {
  auto recipe = common_recipe("imagenet-resnet");
  recipe.resize_size = 235;
  recipe.epochs = 100;
  recipe.drop_path = 0.05;
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
          recipe,
          {kCrops, kRandAugment, {"Mixup or CutMix, half each", "α = 0.1 and 1.0"}}};
}

ImageNetTable vit_table() {
  auto recipe = common_recipe("imagenet-vit");
  recipe.resize_size = 248;
  recipe.epochs = 150;
  recipe.warmup_epochs = 5;
  recipe.final_lr_factor = 1e-4;
  recipe.drop_path = 0.1;
  recipe.label_smoothing = 0.1;
  return {
      "table-imagenet-vit",
      "Table 3: ViT-S on ImageNet",
      "top-1 accuracy of ViT-S after 150 epochs",
      {"vit_small"},
      {{"adaact", {73.8}}, {"sgd", {68.7}}, {"adam", {64.0}}, {"adamw", {78.9}}, {"lamb", {73.8}}},
      recipe,
      {kCrops,
       kRandAugment,
       {"Mixup or CutMix, half each", "α = 0.8 and 1.0"},
       {"Random erasing", "probability 0.25"}}};
}

class TableImageNet : public Experiment {
 public:
  explicit TableImageNet(ImageNetTable table) : table_(std::move(table)) {}

  std::string name() const override { return table_.name; }
  std::string title() const override { return table_.title; }
  std::string shows() const override { return table_.shows; }

  /// The plan of a quick form is the whole one: a smaller one would be another experiment.
  ExperimentPlan plan(const ExperimentForm& form) const override {
    TORCH_CHECK(form.dataset.empty(), "dataset is '", form.dataset,
                "', expected none: ", table_.name, " is of ImageNet");
    ExperimentPlan plan;
    for (const auto& model : table_.models) {
      for (const auto seed : seeds_of(form, {0})) {
        auto config = table_.recipe;
        config.model = model;
        config.seed = seed;
        plan.runs.push_back({optimizer_title(config.optimizer), config, false});
      }
    }
    plan.obstacle = kObstacle;
    return plan;
  }

  void draw(const Found& /*found*/, Page& page) const override {
    Table table{"Top-1 accuracy", {{text("Optimizer"), ""}}, {}};
    for (const auto& model : table_.models) {
      table.heading.push_back({text(model_title(model)), "number"});
      table.heading.push_back({text("paper"), "number"});
    }
    for (const auto& row : table_.rows) {
      std::vector<Cell> cells{{text(optimizer_title(row.optimizer)), ""}};
      for (std::size_t index = 0; index < table_.models.size(); ++index) {
        cells.push_back(
            {text(kNothing), "number"});  // without the recipe it would be another table
        cells.push_back({text(percent(row.accuracies.at(index) / 100.0)), "number"});
      }
      table.rows.push_back(std::move(cells));
    }
    page.add_table(table);
    page.add_paragraph(
        "The paper's numbers but for AdaAct's are those of the Adan paper (Xie et al., 2023).",
        "note");
    page.add_heading("Settings");
    page.add_table(settings_table(table_));
  }

  /// None: the numbers of AdaAct's rivals are of other recipes, so there is nothing of ours to hold
  /// against them.
  std::vector<Finding> findings(const Found& /*found*/) const override { return {}; }

  ordered_json to_json(const Found& /*found*/) const override {
    auto list = ordered_json::array();
    for (const auto& row : table_.rows) {
      for (std::size_t index = 0; index < table_.models.size(); ++index) {
        list.push_back({{"model", table_.models[index]},
                        {"optimizer", row.optimizer},
                        {"top1", nullptr},
                        {"paper", row.accuracies.at(index)}});
      }
    }
    return list;
  }

 private:
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
