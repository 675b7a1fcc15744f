#include <adaact/optim/adaact.h>
#include <nlohmann/json.hpp>

#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/settings_comparison.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr double kPapersPower = 0.5;
constexpr double kPowers[]{0.25, kPapersPower, 0.75, 1.0};
constexpr char kFullCovariance[] = "full covariance";
constexpr std::int64_t kRefreshPeriod = 50;  // as the paper has it for KFAC and FOOF

std::string power_name(double power) { return "p = " + rounded(power); }

Finding best_power(const std::vector<RunSeries>& all) {
  const auto papers = final_over_seeds(series_named(power_name(kPapersPower), all));
  std::vector<Lead> leads;
  for (const double power : kPowers) {
    if (power == kPapersPower) continue;
    const auto other = final_over_seeds(series_named(power_name(power), all));
    leads.push_back({power_name(kPapersPower) + " and " + power_name(power), papers - other});
  }
  const auto [verdict, reason] = judge(leads);
  return {"p = 0.5, the square root, gives a better test accuracy than other powers.",
          accuracy_list(all, final_top1) + "." + reason, verdict};
}

Finding better_than_full(const std::vector<RunSeries>& all) {
  const auto diagonal = final_over_seeds(series_named(power_name(kPapersPower), all));
  const auto full = final_over_seeds(series_named(kFullCovariance, all));
  const auto [verdict, reason] = judge({{"the diagonal and the full matrix", diagonal - full}});
  return {"p = 0.5 is even better than the full covariance matrix.",
          "The diagonal " + percent(diagonal.mean) + ", the full matrix " + percent(full.mean) +
              "." + reason,
          verdict};
}

std::vector<Finding> power_findings(const std::vector<RunSeries>& all) {
  return {best_power(all), better_than_full(all)};
}

SettingsComparison power_comparison() {
  const AdaActOptions defaults;
  SettingsComparison power;
  power.name = "fig-power";
  power.title = "Figure 3: the power of the variance";
  power.shows = "accuracy of ResNet-20 for powers p of V and for the full covariance";
  power.file_prefix = "power";
  power.paragraphs = {
      "AdaAct divides an update by V to the power p. The full covariance takes the whole matrix "
      "E[a aᵀ] in place of its diagonal, with p = " +
      rounded(defaults.power()) +
      " too; its inverse is refreshed every T_inv = " + std::to_string(kRefreshPeriod) +
      " steps, as the paper has it for KFAC and FOOF, and damped by δ = " +
      rounded(defaults.damping()) + ". For the full covariance the paper gives neither."};
  for (const double value : kPowers) {
    power.settings.push_back({power_name(value), "adaact", {{"power", value}}});
  }
  power.settings.push_back(
      {kFullCovariance, "adaact", {{"covariance", "full"}, {"refresh_period", kRefreshPeriod}}});
  power.findings = power_findings;
  return power;
}

}  // namespace

const Experiment& fig_power() {
  static const ComparedSettings experiment(power_comparison());
  return experiment;
}

}  // namespace adaact
