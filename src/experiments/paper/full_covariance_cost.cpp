#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/settings_comparison.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr char kDiagonal[] = "the diagonal";
constexpr double kDampings[]{0.001, 0.01, 0.1};
constexpr std::int64_t kPeriods[]{10, 50, 250};

/// No claim of the paper's: Figure 3 has one setting of the full covariance, and says that the diagonal is better.
std::vector<Finding> no_findings(const std::vector<RunSeries>& /*all*/) { return {}; }

SettingsComparison covariance_comparison() {
  SettingsComparison cost;
  cost.name = "full-covariance-cost";
  cost.title = "What the full covariance costs";
  cost.shows = "ResNet-20: accuracy and time of the full covariance by damping and period";
  cost.file_prefix = "full_covariance";
  cost.paragraphs = {
      "The full covariance E[a aᵀ] in place of its diagonal, damped by δ, its inverse refreshed "
      "every T steps. The question is ours: the paper has neither number."};
  cost.seeds = {0};
  cost.settings = {{kDiagonal, "adaact"}};
  for (const auto period : kPeriods) {
    for (const double damping : kDampings) {
      cost.settings.push_back(
          {"δ = " + rounded(damping) + ", T = " + std::to_string(period),
           "adaact",
           {{"covariance", "full"}, {"damping", damping}, {"refresh_period", period}}});
    }
  }
  cost.shows_cost = true;
  cost.findings = no_findings;
  return cost;
}

}  // namespace

const Experiment& full_covariance_cost() {
  static const ComparedSettings experiment(covariance_comparison());
  return experiment;
}

}  // namespace adaact
