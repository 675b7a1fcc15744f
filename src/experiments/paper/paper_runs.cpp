#include "experiments/paper/paper_runs.h"

#include <algorithm>
#include <map>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// The table "Hyperparameter values used in CIFAR datasets training", for CIFAR-10. A test compares
/// them with configs/, which is not there where the tool is installed.
const std::map<std::string, std::string>& options_for_cifar10() {
  static const std::map<std::string, std::string> options{
      {"adaact", R"({"lr": 0.1, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.002})"},
      {"sgd", R"({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0005, "nesterov": false})"},
      {"adam", R"({"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0005})"},
      {"adamw", R"({"lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01})"},
      {"adan", R"({"lr": 0.01, "betas": [0.98, 0.92, 0.99], "eps": 1e-8, "weight_decay": 0.01})"},
      {"kfac", R"({"lr": 0.05, "momentum": 0.9, "beta2": 0.9, "weight_decay": 0.0005,
                   "damping": 1, "kl_clip": 0.001, "covariance_period": 5, "inverse_period": 50,
                   "inverse": "eigen", "scale": "authors"})"},
      {"foof", R"({"lr": 0.05, "momentum": 0.9, "beta2": 0.95, "weight_decay": 0.0005,
                   "damping": 1, "covariance_period": 5, "inverse_period": 50})"},
  };
  return options;
}

/// Those that are not CIFAR-10's.
const std::map<std::string, std::string>& options_for_cifar100() {
  static const std::map<std::string, std::string> options{
      {"sgd", R"({"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0005, "nesterov": true})"},
      {"kfac", R"({"lr": 0.05, "momentum": 0.9, "beta2": 0.9, "weight_decay": 0.0005,
                   "damping": 10, "kl_clip": 0.001, "covariance_period": 5, "inverse_period": 50,
                   "inverse": "eigen", "scale": "authors"})"},
  };
  return options;
}

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

std::string paper_options(const std::string& optimizer, const std::string& dataset) {
  const auto& of_cifar100 = options_for_cifar100();
  const auto special = of_cifar100.find(optimizer);
  if (dataset == "cifar100" && special != of_cifar100.end()) return special->second;
  const auto found = options_for_cifar10().find(optimizer);
  TORCH_CHECK(found != options_for_cifar10().end(), "adaact: the paper has no settings of '",
              optimizer, "' for CIFAR");
  return found->second;
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
