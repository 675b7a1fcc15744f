#include "experiments/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "report/format.h"

namespace adaact {
namespace {

/// Of a training step with SGD or AdaAct, which differ by less than these numbers are good for.
struct StepTime {
  double milliseconds;
  double images;  // of the batch
};

/// Two cores of an AMD EPYC virtual machine, LibTorch 1.13.1, float32: docs/benchmarks.md.
const std::map<std::string, StepTime>& times_on_two_cores() {
  static const std::map<std::string, StepTime> times{{"lenet5", {9.8, 128}},
                                                     {"resnet20", {264, 128}}};
  return times;
}

/// One NVIDIA H200, LibTorch 2.11, steps in CUDA graphs: results/gpu-bench, bf16 and channels-last; LeNet-5
/// in float32 with activation variances, from the runs in results/repeated.
const std::map<std::string, StepTime>& times_on_gpu() {
  static const std::map<std::string, StepTime> times{{"lenet5", {0.56, 128}},
                                                     {"resnet20", {1.82, 128}},
                                                     {"resnet34", {4.95, 128}},
                                                     {"densenet121", {17.1, 128}},
                                                     {"vit_small", {54.7, 256}}};
  return times;
}

bool has_full_covariance(const RunConfig& config) {
  const auto options = nlohmann::json::parse(config.optimizer_options);
  return options.value("covariance", "diagonal") == std::string("full");
}

/// To SGD's time, of those whose updates are matrix products.
std::optional<double> ratio_of_factored(const std::string& what, const std::string& model,
                                        CostOn machine) {
  // docs/benchmarks.md
  static const std::map<std::string, double> on_two_cores{{"foof", 1.6}, {"kfac", 1.7}};
  // The H200 with ResNet-20, tf32, to SGD in bf16: results/gpu-bench/factored_resnet20.txt. That of the
  // full covariance is from before its update was captured.
  static const std::map<std::string, double> on_gpu{{"foof", 2.3}, {"kfac", 3.3}, {"full", 6.4}};
  if (machine == CostOn::Gpu && model != "resnet20") return std::nullopt;
  const auto& ratios = machine == CostOn::Gpu ? on_gpu : on_two_cores;
  const auto found = ratios.find(what);
  return found == ratios.end() ? std::nullopt : std::optional(found->second);
}

/// The same of any. Nothing where it was not measured.
std::optional<double> ratio_of(const RunConfig& config, CostOn machine) {
  const auto& optimizer = config.optimizer;
  if (has_full_covariance(config)) return ratio_of_factored("full", config.model, machine);
  if (optimizer != "foof" && optimizer != "kfac") return 1.0;
  return ratio_of_factored(optimizer, config.model, machine);
}

/// Images that it sees; nothing of a data set whose size nobody knows.
std::optional<double> images_in(const RunConfig& config) {
  static const std::map<std::string, std::int64_t> sizes{
      {"cifar10", 50'000},
      {"cifar100", 50'000},
      {"fashion-mnist", 60'000},
      {"mnist", 60'000},
      {"image-folder", 1'281'167}};  // ImageNet, in the paper's experiments
  const auto size = sizes.find(config.dataset);
  if (size == sizes.end()) return std::nullopt;
  const auto images =
      config.limit_train == 0 ? size->second : std::min(size->second, config.limit_train);
  return static_cast<double>(images * config.epochs);
}

std::optional<double> seconds_of(const RunConfig& config, CostOn machine) {
  const auto& times = machine == CostOn::Gpu ? times_on_gpu() : times_on_two_cores();
  const auto step = times.find(config.model);
  const auto ratio = ratio_of(config, machine);
  const auto images = images_in(config);
  if (step == times.end() || !ratio || !images) return std::nullopt;
  return *images / step->second.images * step->second.milliseconds / 1000.0 * *ratio;
}

/// Two digits are more than is known.
std::string rough_duration(double seconds) {
  if (seconds < 60.0) return rounded(std::max(1.0, std::round(seconds))) + " s";
  if (seconds < 3600.0) return rounded(std::round(seconds / 60.0)) + " min";
  if (seconds < 2 * 86400.0) return rounded(std::round(seconds / 3600.0)) + " h";
  return rounded(std::round(seconds / 86400.0)) + " days";
}

}  // namespace

Cost estimate_cost(const ExperimentPlan& plan, CostOn machine) {
  Cost cost;
  const auto add = [&](std::optional<double> seconds) {
    cost.seconds += seconds.value_or(0.0);
    cost.is_all = cost.is_all && seconds.has_value();
  };
  for (const auto& run : plan.runs) add(seconds_of(run.config, machine));
  for (const auto& measurement : plan.measurements) {
    // Those that are not trainings do nothing that a GPU would do faster.
    cost.seconds += measurement.seconds_on_two_cores;
    // On a GPU their steps are not captured, unlike those of a run.
    const bool is_known = machine == CostOn::TwoCores;
    for (const auto& run : measurement.as_long_as) {
      add(is_known ? seconds_of(run, machine) : std::nullopt);
    }
  }
  return cost;
}

std::string cost_text(const Cost& cost) {
  if (cost.seconds == 0.0) return kNothing;
  return (cost.is_all ? "about " : "over ") + rough_duration(cost.seconds);
}

}  // namespace adaact
