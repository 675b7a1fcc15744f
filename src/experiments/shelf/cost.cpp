#include "experiments/shelf/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <adaact/models/registry.h>

#include "report/format.h"

namespace adaact {
namespace {

/// What a step is made of beside both passes.
enum class Work {
  Plain,  // SGD, AdaAct and others of the plans, which differ by less than these numbers are good for
  Foof,
  Kfac,
  FullCovariance,
  Watched  // by a measurement, step by step
};

struct StepTime {
  std::string model;
  Work work;
  double milliseconds;
  double images = 128;  // of the batch
};

/// Two cores of an AMD EPYC virtual machine, LibTorch 1.13.1, float32: docs/benchmarks.md and, where it
/// does not have them, results/cpu-bench. Watched steps from the 50 minutes in docs/reproduction.md.
const std::vector<StepTime>& times_on_two_cores() {
  static const std::vector<StepTime> times{
      {"lenet5", Work::Plain, 9.8},         {"lenet5", Work::Watched, 10.7},
      {"resnet20", Work::Plain, 264},       {"resnet20", Work::Foof, 415},
      {"resnet20", Work::Kfac, 446},        {"resnet20", Work::FullCovariance, 1181},
      {"resnet32", Work::Plain, 529},       {"resnet32", Work::Foof, 860},
      {"resnet32", Work::Kfac, 939},        {"resnet34", Work::Plain, 5280},
      {"resnet34", Work::Foof, 9303},       {"resnet34", Work::Kfac, 14105},
      {"densenet121", Work::Plain, 8262},   {"densenet121", Work::Foof, 13213},
      {"densenet121", Work::Kfac, 13883},   {"resnet50", Work::Plain, 3274, 16},
      {"resnet101", Work::Plain, 5071, 16}, {"vit_small", Work::Plain, 3621, 16},
  };
  return times;
}

/// One NVIDIA H200, LibTorch 2.11: results/gpu-bench. Whole steps in CUDA graphs, bf16 and channels-last
/// (peers.txt); tf32 of ResNet-32 and of those that multiply matrices, and ResNet-101, as they were before layers
/// were fused. LeNet-5 in float32: with activation variances, from runs of seed 0 that were alone, and watched,
/// without graphs.
const std::vector<StepTime>& times_on_gpu() {
  static const std::vector<StepTime> times{
      {"lenet5", Work::Plain, 0.56},         {"lenet5", Work::Watched, 3.67},
      {"resnet20", Work::Plain, 1.20},       {"resnet20", Work::Foof, 3.69},
      {"resnet20", Work::Kfac, 6.03},        {"resnet20", Work::FullCovariance, 6.98},
      {"resnet32", Work::Plain, 3.97},       {"resnet32", Work::Foof, 6.25},
      {"resnet32", Work::Kfac, 9.31},        {"resnet34", Work::Plain, 3.41},
      {"resnet34", Work::Foof, 16.5},        {"resnet34", Work::Kfac, 44.4},
      {"densenet121", Work::Plain, 8.51},    {"densenet121", Work::Foof, 38.8},
      {"densenet121", Work::Kfac, 67.6},     {"resnet50", Work::Plain, 34.7, 256},
      {"resnet101", Work::Plain, 82.2, 256}, {"vit_small", Work::Plain, 24.6, 256},
  };
  return times;
}

Work work_of(const RunConfig& config) {
  const auto options = nlohmann::json::parse(config.optimizer_options);
  if (options.value("covariance", "diagonal") == std::string("full")) return Work::FullCovariance;
  if (config.optimizer == "foof") return Work::Foof;
  if (config.optimizer == "kfac") return Work::Kfac;
  return Work::Plain;
}

/// Images that a run sees; nothing of a data set whose size nobody knows.
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

/// How much less there is to an image than to those that the times are of.
double part_of_image(const RunConfig& config) {
  const auto usual = static_cast<double>(default_model_options(config.model).image_size);
  if (config.image_size == 0) return 1.0;
  return std::pow(static_cast<double>(config.image_size) / usual, 2);
}

/// Seconds that a run takes; nothing where the time of its step was not measured.
std::optional<double> seconds_of(const RunConfig& config, Work work, CostOn machine) {
  const auto& times = machine == CostOn::Gpu ? times_on_gpu() : times_on_two_cores();
  const auto step = std::find_if(times.begin(), times.end(), [&](const StepTime& time) {
    return time.model == config.model && time.work == work;
  });
  const auto images = images_in(config);
  if (step == times.end() || !images) return std::nullopt;
  const double passes = config.optimizer == "sam" ? 2.0 : 1.0;
  return *images * passes / step->images * part_of_image(config) * step->milliseconds / 1000.0;
}

/// A duration in whole units: more digits are not known.
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
  for (const auto& run : plan.runs) add(seconds_of(run.config, work_of(run.config), machine));
  for (const auto& measurement : plan.measurements) {
    // Measurements that are no trainings do nothing that a GPU would do faster.
    cost.seconds += measurement.seconds_on_two_cores;
    for (const auto& run : measurement.as_long_as) add(seconds_of(run, Work::Watched, machine));
  }
  return cost;
}

std::string cost_text(const Cost& cost) {
  if (cost.seconds == 0.0) return kNothing;
  return (cost.is_all ? "about " : "over ") + rough_duration(cost.seconds);
}

}  // namespace adaact
