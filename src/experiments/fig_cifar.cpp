#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "experiments/catalog.h"
#include "experiments/cifar_comparison.h"
#include "experiments/paper_runs.h"
#include "report/format.h"
#include "report/run_plots.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;
using Verdict = Finding::Verdict;

/// How much longer than another's a time may be and still be called similar.
constexpr double kSimilarTimes = 1.25;

/// Accuracy and seconds after each epoch, averaged over the seeds.
RunHistory mean_over_seeds(const CifarCell& cell) {
  RunHistory mean;
  if (cell.runs.empty()) return mean;
  mean.config = cell.runs.front()->config;
  auto epochs = cell.runs.front()->epochs.size();
  for (const auto* run : cell.runs) epochs = std::min(epochs, run->epochs.size());
  const auto share = 1.0 / static_cast<double>(cell.runs.size());
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    EpochMetrics metrics;
    metrics.epoch = static_cast<std::int64_t>(epoch);
    for (const auto* run : cell.runs) {
      metrics.test.top1 += share * run->epochs[epoch].test.top1;
      metrics.seconds += share * run->epochs[epoch].seconds;
    }
    mean.epochs.push_back(metrics);
  }
  return mean;
}

using Histories = std::map<std::string, RunHistory>;  // by optimizer

Histories histories_of(const CifarColumn& column) {
  Histories histories;
  for (const auto& cell : column) {
    if (!cell.runs.empty()) histories[cell.optimizer] = mean_over_seeds(cell);
  }
  return histories;
}

bool has_all(const Histories& histories, const std::vector<std::string>& optimizers) {
  return std::all_of(optimizers.begin(), optimizers.end(),
                     [&](const std::string& optimizer) { return histories.count(optimizer) != 0; });
}

/// Over the first tenth of the epochs and over the optimizers; a fraction.
double early_accuracy(const Histories& histories, const std::vector<std::string>& optimizers) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const auto& optimizer : optimizers) {
    const auto& epochs = histories.at(optimizer).epochs;
    const auto early = std::max<std::size_t>(1, epochs.size() / 10);
    for (std::size_t epoch = 0; epoch < early; ++epoch) sum += epochs[epoch].test.top1;
    count += early;
  }
  return sum / static_cast<double>(count);
}

Finding adaptive_methods_begin_faster(const Histories& histories, const std::string& where) {
  const std::vector<std::string> adaptive{"adam", "adamw", "adan"};
  const std::vector<std::string> others{"adaact", "sgd", "kfac"};
  Finding finding{where + ": Adam, AdamW and Adan are ahead of AdaAct, SGD and KFAC early",
                  "not all six are there", Verdict::Open};
  if (!has_all(histories, adaptive) || !has_all(histories, others)) return finding;
  const auto early = early_accuracy(histories, adaptive);
  const auto others_early = early_accuracy(histories, others);
  finding.measured = "mean test accuracy over the first tenth of the epochs: " + percent(early) +
                     " and " + percent(others_early);
  finding.verdict = early > others_early ? Verdict::Agrees : Verdict::Disagrees;
  return finding;
}

/// Times of different machines are not comparable.
bool ran_alike(const CifarColumn& column) {
  std::set<std::string> machines;
  for (const auto& cell : column) {
    for (const auto* run : cell.runs) {
      machines.insert(run->config.device + " " + run->config.precision + " " +
                      run->config.memory_format);
    }
  }
  return machines.size() < 2;
}

double seconds_of(const Histories& histories, const std::string& optimizer) {
  return histories.at(optimizer).epochs.back().seconds;
}

std::vector<Finding> findings_about_times(const CifarColumn& column, const Histories& histories,
                                          const std::string& where) {
  Finding slowest{where + ": KFAC takes the longest", "", Verdict::Open};
  Finding speed{where + ": AdaAct takes about as long as Adan, and less than FOOF and KFAC", "",
                Verdict::Open};
  if (!ran_alike(column)) {
    slowest.measured = speed.measured = "the runs are of different devices or precisions";
    return {slowest, speed};
  }
  if (!has_all(histories, paper_optimizers())) {
    slowest.measured = speed.measured = "not all seven are there";
    return {slowest, speed};
  }
  std::string list;
  auto longest = paper_optimizers().front();
  for (const auto& optimizer : paper_optimizers()) {
    const auto seconds = seconds_of(histories, optimizer);
    list += (list.empty() ? "" : ", ") + optimizer_title(optimizer) + " " + duration(seconds);
    if (seconds > seconds_of(histories, longest)) longest = optimizer;
  }
  slowest.measured = speed.measured = list;
  slowest.verdict = longest == "kfac" ? Verdict::Agrees : Verdict::Disagrees;
  const auto adaact = seconds_of(histories, "adaact");
  const bool is_fast = adaact <= kSimilarTimes * seconds_of(histories, "adan") &&
                       adaact < seconds_of(histories, "foof") &&
                       adaact < seconds_of(histories, "kfac");
  speed.verdict = is_fast ? Verdict::Agrees : Verdict::Disagrees;
  return {slowest, speed};
}

bool is_empty(const CifarColumn& column) {
  return std::all_of(column.begin(), column.end(),
                     [](const CifarCell& cell) { return cell.runs.empty(); });
}

class FigCifar : public Experiment {
 public:
  std::string name() const override { return "fig-cifar"; }
  std::string title() const override {
    return "Figure 7: test accuracy and training time on CIFAR";
  }
  std::string shows() const override {
    return "test accuracy of seven optimizers on CIFAR against epochs and against seconds";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    return cifar_comparison(form, seeds_of(form, {0}));
  }

  void draw(const Found& found, Page& page) const override {
    for (const auto& column : cifar_columns(found)) {
      if (is_empty(column)) continue;
      std::vector<NamedRun> runs;  // those without epochs keep the colours of the others in place
      for (const auto& cell : column) {
        runs.push_back({optimizer_title(cell.optimizer), mean_over_seeds(cell)});
      }
      page.add_heading(column.front().title());
      const auto name = column.front().dataset + "_" + column.front().model;
      page.add_figures({page.figure(test_accuracy_plot(runs, Against::Epochs), name + "_epochs",
                                    "After each epoch, the mean of the seeds that are there."),
                        page.figure(test_accuracy_plot(runs, Against::Seconds), name + "_seconds",
                                    "Training alone, without evaluation.")});
    }
  }

  std::vector<Finding> findings(const Found& found) const override {
    std::vector<Finding> all;
    for (const auto& column : cifar_columns(found)) {
      if (is_empty(column)) continue;
      const auto histories = histories_of(column);
      const auto where = column.front().title();
      all.push_back(adaptive_methods_begin_faster(histories, where));
      for (auto& finding : findings_about_times(column, histories, where)) {
        all.push_back(std::move(finding));
      }
    }
    return all;
  }

  ordered_json to_json(const Found& found) const override {
    auto list = ordered_json::array();
    for (const auto& column : cifar_columns(found)) {
      for (const auto& cell : column) {
        ordered_json object{{"dataset", cell.dataset},
                            {"model", cell.model},
                            {"optimizer", cell.optimizer},
                            {"seeds", ordered_json::array()},
                            {"test_top1", ordered_json::array()},
                            {"seconds", ordered_json::array()}};
        for (const auto* run : cell.runs) object["seeds"].push_back(run->config.seed);
        for (const auto& epoch : mean_over_seeds(cell).epochs) {
          object["test_top1"].push_back(epoch.test.top1);
          object["seconds"].push_back(epoch.seconds);
        }
        list.push_back(std::move(object));
      }
    }
    return list;
  }
};

}  // namespace

const Experiment& fig_cifar() {
  static const FigCifar experiment;
  return experiment;
}

}  // namespace adaact
