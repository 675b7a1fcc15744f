#include "experiments/paper/imagenet_recipe.h"

#include <utility>
#include <vector>

#include <adaact/optim/schedules.h>
#include <nlohmann/json.hpp>

#include "experiments/page/titles.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

/// What the recipes have in common. `setting` is that of AdaAct in configs/.
RunConfig common_recipe(const std::string& setting) {
  const auto adaact = paper_setting("adaact", setting);
  RunConfig config;
  config.dataset = "image-folder";
  config.image_size = 224;
  config.flip = "on";
  config.crop = "resized";
  config.crop_scale = {0.08, 1.0};
  config.rand_augment = "rand-m7-mstd0.5-inc1";
  config.cutmix = 1.0;
  config.batch_size = 256;
  config.accumulation = 8;
  config.optimizer = adaact.optimizer;
  config.optimizer_options = adaact.options;
  config.decay_vectors = adaact.decay == DecayRule::Everything;
  config.schedule = "cosine";
  return config;
}

std::int64_t images_of_step(const RunConfig& config) {
  return config.batch_size * config.accumulation;
}

std::string schedule_text(const RunConfig& recipe) {
  auto words = recipe.schedule;
  if (recipe.min_lr > 0.0) words += " to " + rounded(recipe.min_lr);
  if (recipe.warmup_epochs == 0) return words + ", no warm-up";
  return words + ", " + std::to_string(recipe.warmup_epochs) + " epochs of warm-up from " +
         rounded(recipe.warmup_lr);
}

}  // namespace

RunConfig imagenet_resnet_recipe() {
  auto recipe = common_recipe("imagenet-resnet");
  recipe.crop_ratio = 0.95;
  recipe.mixup = 0.1;
  recipe.epochs = 100;
  recipe.drop_path = 0.05;
  return recipe;
}

RunConfig imagenet_vit_recipe() {
  auto recipe = common_recipe("imagenet-vit");
  recipe.crop_ratio = 0.9;
  recipe.mixup = 0.8;
  recipe.erase = 0.25;
  recipe.epochs = 150;
  recipe.warmup_epochs = 5;
  recipe.warmup_lr = 0.4;
  recipe.min_lr = 4e-4;
  recipe.drop_path = 0.1;
  recipe.label_smoothing = 0.1;
  return recipe;
}

void shrink_imagenet_recipe(RunConfig& config) {
  const auto images_before = images_of_step(config);
  config.image_size = 64;
  config.limit_train = 512;
  config.limit_test = 256;
  config.epochs = 3;
  config.batch_size = 32;
  config.accumulation = 2;
  const auto scaled = [&](double rate) {
    return scaled_learning_rate(rate, images_of_step(config), images_before);
  };
  auto options = ordered_json::parse(config.optimizer_options);
  options["lr"] = scaled(options.at("lr"));
  config.optimizer_options = options.dump();
  config.min_lr = scaled(config.min_lr);
  if (config.warmup_epochs == 0) return;
  config.warmup_epochs = 1;
  config.warmup_lr = scaled(config.warmup_lr);
}

Table imagenet_settings(const RunConfig& recipe) {
  const auto options = ordered_json::parse(recipe.optimizer_options);
  const auto side = std::to_string(recipe.image_size);
  std::vector<std::pair<std::string, std::string>> settings{
      {"Optimizer", optimizer_title(recipe.optimizer)},
      {"Learning rate", options.at("lr").dump()},
      {"Schedule", schedule_text(recipe)},
      {"Weight decay", options.at("weight_decay").dump() + ", not of biases and normalisation"},
      {"Batch", std::to_string(recipe.batch_size) + " × " + std::to_string(recipe.accumulation)},
      {"Epochs", std::to_string(recipe.epochs)},
      {"Drop-path", rounded(recipe.drop_path)},
      {"Loss", "cross entropy, label smoothing " + rounded(recipe.label_smoothing)},
      {"Crop", "random, resized to " + side + "; " + rounded(100.0 * recipe.crop_scale.at(0)) +
                   " to " + rounded(100.0 * recipe.crop_scale.at(1)) + " % of the area; flip"},
      {"RandAugment", recipe.rand_augment},
      {"Mixup or CutMix, half each",
       "α = " + rounded(recipe.mixup) + " and " + rounded(recipe.cutmix)},
      {"Random erasing", recipe.erase > 0.0 ? "probability " + rounded(recipe.erase) : kNothing},
      {"Evaluation", "centre crop of " + side + ", " + rounded(recipe.crop_ratio) +
                         " of the shorter side, bilinear"}};
  Table markup{"Settings", {{text("Setting"), ""}, {text("Value"), "wide"}}, {}};
  for (const auto& [name, value] : settings) {
    markup.rows.push_back({{text(name), ""}, {text(value), "wide"}});
  }
  return markup;
}

}  // namespace adaact
