#include "experiments/paper/lenet_variances.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>

#include "experiments/page/titles.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

// Unlike std::min and std::max these do not lose a NaN.
double lower(double left, double right) { return std::isnan(left) || left < right ? left : right; }
double higher(double left, double right) { return std::isnan(left) || left > right ? left : right; }

std::string without_ending(const std::string& name, const std::string& ending) {
  const bool ends_so = name.size() > ending.size() &&
                       name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  return ends_so ? name.substr(0, name.size() - ending.size()) : name;
}

std::string layer_of_weight(const std::string& weight) { return without_ending(weight, ".weight"); }

std::string layer_of(const ActivationVariance& variance) { return layer_of_weight(variance.layer); }

/// Of a layer in each epoch, one of each run that has it.
std::vector<std::vector<ActivationVariance>> variances_of_runs(const RunSeries& series,
                                                               const std::string& layer) {
  std::vector<std::vector<ActivationVariance>> by_epoch;
  for (const auto* run : series.runs) {
    by_epoch.resize(std::max(by_epoch.size(), run->epochs.size()));
    for (std::size_t epoch = 0; epoch < run->epochs.size(); ++epoch) {
      for (const auto& variance : run->epochs[epoch].activation_variances) {
        if (layer_of(variance) == layer) by_epoch[epoch].push_back(variance);
      }
    }
  }
  return by_epoch;
}

}  // namespace

PlannedRun lenet_run(const std::string& optimizer, const ExperimentForm& form, std::uint64_t seed) {
  PlannedRun run;
  run.series = optimizer_title(optimizer);
  run.config = paper_run(optimizer, "lenet5", dataset_of(form, "cifar10"), seed);
  if (form.quick) shrink(run.config);
  run.activation_variances = true;
  return run;
}

std::vector<std::string> hidden_layers(const std::vector<RunSeries>& all) {
  for (const auto& series : all) {
    for (const auto* run : series.runs) {
      if (run->epochs.empty()) continue;
      const auto& variances = run->epochs.back().activation_variances;
      if (variances.empty()) continue;
      std::vector<std::string> layers;
      std::transform(variances.begin() + 1, variances.end(), std::back_inserter(layers), layer_of);
      return layers;
    }
  }
  return {};
}

std::string label_of(const std::string& layer) {
  constexpr const char* kLayers[]{"conv1", "conv2", "fc1", "fc2", "fc3"};
  for (std::size_t index = 1; index < std::size(kLayers); ++index) {
    if (layer == kLayers[index]) return kLayers[index - 1] + std::string(" out");
  }
  return "input of " + layer;
}

std::vector<ActivationVariance> variances_by_epoch(const RunSeries& series,
                                                   const std::string& layer) {
  const auto of_runs = variances_of_runs(series, layer);
  std::vector<ActivationVariance> variances;
  std::transform(of_runs.begin(), of_runs.end(), std::back_inserter(variances), together);
  return variances;
}

std::vector<MeanAndError> mean_variances_by_epoch(const RunSeries& series,
                                                  const std::string& layer) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<MeanAndError> means;
  for (const auto& of_runs : variances_of_runs(series, layer)) {
    std::vector<double> variances;
    variances.reserve(of_runs.size());
    for (const auto& variance : of_runs) variances.push_back(variance.mean);
    means.push_back(variances.empty() ? MeanAndError{kNaN, kNaN} : mean_and_error(variances));
  }
  return means;
}

double mean_second_moment(const RunSeries& series, const std::string& layer) {
  std::vector<double> moments;
  for (const auto* run : series.runs) {
    for (const auto& epoch : run->epochs) {
      for (const auto& [weight, moment] : epoch.second_moments) {
        if (layer_of_weight(weight) == layer) moments.push_back(moment);
      }
    }
  }
  return moments.empty() ? std::numeric_limits<double>::quiet_NaN() : mean_and_error(moments).mean;
}

ActivationVariance together(const std::vector<ActivationVariance>& measured) {
  if (measured.empty()) {
    const auto nan = std::numeric_limits<double>::quiet_NaN();
    return {"", nan, nan, nan, nan, nan, nan, nan};
  }
  auto total = measured.front();
  for (auto part = measured.begin() + 1; part != measured.end(); ++part) {
    total.mean += part->mean;
    total.lowest_mean = lower(total.lowest_mean, part->lowest_mean);
    total.highest_mean = higher(total.highest_mean, part->highest_mean);
    total.lowest = lower(total.lowest, part->lowest);
    total.highest = higher(total.highest, part->highest);
    total.lowest_moment = lower(total.lowest_moment, part->lowest_moment);
    total.highest_moment = higher(total.highest_moment, part->highest_moment);
  }
  total.mean /= static_cast<double>(measured.size());
  return total;
}

std::string variance_text(double variance) {
  if (!std::isfinite(variance)) return kNothing;
  char result[32];
  std::snprintf(result, sizeof(result), "%.3g", variance);
  return result;
}

}  // namespace adaact
