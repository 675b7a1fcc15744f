#include <adaact/optim/adaact.h>
#include <nlohmann/json.hpp>

#include "experiments/page/curves.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"

namespace adaact {
namespace {

constexpr double kPapersPower = 0.5;
constexpr double kPowers[]{0.25, kPapersPower, 0.75, 1.0};
constexpr char kFullCovariance[] = "full covariance";
constexpr std::int64_t kRefreshPeriod = 50;  // as the paper has it for KFAC and FOOF

std::string power_name(double power) { return "p = " + rounded(power); }

PlannedRun resnet_run(const std::string& series, const nlohmann::json& changed_options,
                      const ExperimentForm& form, std::uint64_t seed) {
  PlannedRun run;
  run.series = series;
  run.config = paper_run("adaact", "resnet20", dataset_of(form, "cifar10"), seed);
  auto options = nlohmann::json::parse(run.config.optimizer_options);
  options.update(changed_options);
  run.config.optimizer_options = options.dump();
  if (form.quick) shrink(run.config);
  return run;
}

/// As in the paper, the test accuracy stands in the legend.
Plot with_accuracies(Plot plot, const std::vector<RunSeries>& all) {
  for (std::size_t index = 0; index < all.size(); ++index) {
    plot.series[index].name += ": " + percent(final_top1(all[index]));
  }
  return plot;
}

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

class FigPower : public Experiment {
 public:
  std::string name() const override { return "fig-power"; }
  std::string title() const override { return "Figure 3: the power of the variance"; }
  std::string shows() const override {
    return "accuracy of ResNet-20 for powers p of V and for the full covariance";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    const auto seeds = seeds_of(form, {0});
    for (const double power : kPowers) {
      for (const auto seed : seeds) {
        plan.runs.push_back(resnet_run(power_name(power), {{"power", power}}, form, seed));
      }
    }
    for (const auto seed : seeds) {
      const nlohmann::json options{{"covariance", "full"}, {"refresh_period", kRefreshPeriod}};
      plan.runs.push_back(resnet_run(kFullCovariance, options, form, seed));
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    const auto all = series_of(found);
    const AdaActOptions defaults;
    page.add_paragraph(
        "AdaAct divides an update by V to the power p. The full covariance takes the whole matrix "
        "E[a aᵀ] in place of its diagonal, with p = " +
        rounded(defaults.power()) +
        " too; its inverse is refreshed every T_inv = " + std::to_string(kRefreshPeriod) +
        " steps, as the paper has it for KFAC and FOOF, and damped by δ = " +
        rounded(defaults.damping()) + ". For the full covariance the paper gives neither.");
    page.add_figures(
        {page.figure(accuracy_plot(all, ImageSet::Train), "power_train_accuracy",
                     "Of the batches of each epoch, augmented."),
         page.figure(with_accuracies(accuracy_plot(all, ImageSet::Test), all),
                     "power_test_accuracy", "After each epoch; in the legend, after the last.")});
    page.add_table(accuracy_table(all));
  }

  std::vector<Finding> findings(const Found& found) const override {
    const auto all = series_of(found);
    return open_until_complete(found, {best_power(all), better_than_full(all)});
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    auto json = nlohmann::ordered_json::array();
    for (const auto& series : series_of(found)) json.push_back(accuracy_json(series));
    return {{"series", json}};
  }
};

}  // namespace

const Experiment& fig_power() {
  static const FigPower experiment;
  return experiment;
}

}  // namespace adaact
