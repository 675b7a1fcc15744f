#include "experiments/paper/paper_runs.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "experiments/paper/embedded_configs.h"

namespace adaact {
namespace {

struct QuickSize {
  std::int64_t train_images;
  std::int64_t test_images;
  std::int64_t epochs;
};

/// A step of 128 images takes 10 ms with LeNet-5 and 0.23 s with ResNet-20; ResNet-34 and the others
/// multiply 20 times as much as that one, or more.
QuickSize quick_size_of(const std::string& model) {
  if (model == "lenet5" || model == "mlp") return {10'000, 2'000, 5};
  if (model == "resnet20") return {2'560, 512, 3};
  if (model == "resnet32") return {1'536, 512, 3};
  return {256, 128, 2};
}

}  // namespace

const std::vector<std::string>& paper_optimizers() {
  static const std::vector<std::string> names{"adaact", "sgd",  "adam", "adamw",
                                              "adan",   "kfac", "foof"};
  return names;
}

OptimizerConfig paper_setting(const std::string& optimizer, const std::string& setting) {
  return OptimizerConfig::parse(embedded_configs().at(optimizer), setting,
                                "configs/" + optimizer + ".json");
}

std::string paper_options(const std::string& optimizer, const std::string& dataset) {
  const auto& known = paper_optimizers();
  TORCH_CHECK(std::find(known.begin(), known.end(), optimizer) != known.end(),
              "adaact: the paper has no settings of '", optimizer, "' for CIFAR");
  return paper_setting(optimizer, dataset == "cifar100" ? "cifar100" : "cifar10").options;
}

RunConfig paper_run(const std::string& optimizer, const std::string& model,
                    const std::string& dataset, std::uint64_t seed) {
  RunConfig config;
  config.model = model;
  config.dataset = dataset;
  config.optimizer = optimizer;
  config.optimizer_options = paper_options(optimizer, dataset);
  config.schedule = "cosine";
  config.epochs = 200;
  config.batch_size = 128;
  config.seed = seed;
  return config;
}

void shrink(RunConfig& config) {
  const auto size = quick_size_of(config.model);
  config.limit_train = size.train_images;
  config.limit_test = size.test_images;
  config.epochs = std::min(config.epochs, size.epochs);
}

std::string dataset_of(const ExperimentForm& form, const std::string& papers) {
  if (!form.dataset.empty()) return form.dataset;
  return form.quick ? "fashion-mnist" : papers;
}

std::vector<std::uint64_t> seeds_of(const ExperimentForm& form,
                                    const std::vector<std::uint64_t>& own) {
  if (!form.seeds.empty()) return form.seeds;
  return form.quick ? std::vector<std::uint64_t>{0} : own;
}

}  // namespace adaact
