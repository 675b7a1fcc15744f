#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/settings_comparison.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr double kPapersDecay = 2e-3;  // of the CIFAR table
constexpr double kLowDecay = 1e-4;
constexpr double kWeightDecays[]{kPapersDecay, 5e-4, kLowDecay};

std::string adaact_with(double weight_decay) { return "AdaAct, λ = " + rounded(weight_decay); }

/// Whether AdaAct with the lowest weight decay is ahead of another in some accuracy.
Finding low_decay_against(const std::string& other, const std::string& claim,
                          const std::vector<RunSeries>& all,
                          OverSeeds (*accuracy)(const RunSeries&), const std::string& what) {
  const auto low = accuracy(series_named(adaact_with(kLowDecay), all));
  const auto others = accuracy(series_named(other, all));
  const auto [verdict, reason] = judge({{adaact_with(kLowDecay) + " and " + other, low - others}});
  return {claim,
          what + ": " + adaact_with(kLowDecay) + " " + percent(low.mean) + ", " + other + " " +
              percent(others.mean) + "." + reason,
          verdict};
}

constexpr char kEarly[] = "Mean test accuracy over the first tenth of the epochs";

std::vector<Finding> decay_findings(const std::vector<RunSeries>& all) {
  return {low_decay_against(adaact_with(kPapersDecay),
                            "A lower weight decay lets AdaAct converge faster.", all,
                            early_over_seeds, kEarly),
          low_decay_against("Adam",
                            "With a lower weight decay AdaAct converges as fast as Adam. Taken for "
                            "true: it is ahead.",
                            all, early_over_seeds, kEarly),
          low_decay_against("Adam", "And it still generalizes better than Adam.", all,
                            final_over_seeds, "Final test accuracy")};
}

SettingsComparison decay_comparison() {
  SettingsComparison decay;
  decay.name = "weight-decay";
  decay.title = "AdaAct's weight decay";
  decay.shows = "ResNet-20: whether a lower weight decay lets AdaAct converge like Adam";
  decay.file_prefix = "weight_decay";
  decay.paragraphs = {
      "The paper says in its text, without a figure, that a high weight decay makes AdaAct "
      "converge like SGD, and a lower one like Adam, with better generalization still. λ = " +
      rounded(kPapersDecay) + " is that of its CIFAR table; the others are ours."};
  for (const double value : kWeightDecays) {
    decay.settings.push_back({adaact_with(value), "adaact", {{"weight_decay", value}}});
  }
  decay.settings.push_back({"SGD", "sgd"});
  decay.settings.push_back({"Adam", "adam"});
  decay.findings = decay_findings;
  return decay;
}

}  // namespace

const Experiment& weight_decay() {
  static const ComparedSettings experiment(decay_comparison());
  return experiment;
}

}  // namespace adaact
