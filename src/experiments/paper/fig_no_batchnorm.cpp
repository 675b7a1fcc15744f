#include <nlohmann/json.hpp>

#include "experiments/page/curves.h"
#include "experiments/page/titles.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/paper_runs.h"
#include "report/format.h"
#include "report/palette.h"

namespace adaact {
namespace {

/// The paper does not say at which learning rate it trained SGD without batch normalization. At that of
/// its table, 0.1, SGD diverges, which says little about the two optimizers: a rate of ours beside it.
constexpr double kLowerRate = 0.01;

std::string lower_rate() { return "η = " + rounded(kLowerRate); }

std::string series_name(const std::string& optimizer, bool batchnorm) {
  return optimizer_title(optimizer) + (batchnorm ? "" : " without BN");
}

std::string name_at_lower_rate() { return series_name("sgd", false) + ", " + lower_rate(); }

PlannedRun resnet_run(const std::string& optimizer, bool batchnorm, const ExperimentForm& form,
                      std::uint64_t seed) {
  PlannedRun run;
  run.series = series_name(optimizer, batchnorm);
  run.config = paper_run(optimizer, "resnet20", dataset_of(form, "cifar10"), seed);
  run.config.batchnorm = batchnorm;
  if (form.quick) shrink(run.config);
  return run;
}

PlannedRun run_at_lower_rate(const ExperimentForm& form, std::uint64_t seed) {
  auto run = resnet_run("sgd", false, form, seed);
  run.series = name_at_lower_rate();
  auto options = nlohmann::json::parse(run.config.optimizer_options);
  options["lr"] = kLowerRate;
  run.config.optimizer_options = options.dump();
  return run;
}

/// One optimizer with batch normalization and without it.
struct Removal {
  RunSeries with;
  RunSeries without;

  OverSeeds loss() const { return final_over_seeds(with) - final_over_seeds(without); }
  double drop() const { return loss().mean; }
};

/// In plots an optimizer has one colour, with dashes where there is no batch normalization, and others
/// where the rate is lower too.
Removal removal_of(const std::string& optimizer, std::size_t colour,
                   const std::vector<RunSeries>& all) {
  Removal removal{series_named(series_name(optimizer, true), all),
                  series_named(series_name(optimizer, false), all)};
  removal.with.style = colour;
  removal.without.style = colour + kSeriesColours.size();
  return removal;
}

struct Removals {
  Removal adaact;
  Removal sgd;
  RunSeries sgd_at_lower_rate;

  std::vector<RunSeries> series() const {
    return {adaact.with, adaact.without, sgd.with, sgd.without, sgd_at_lower_rate};
  }
};

Removals removals_of(const Found& found) {
  const auto all = series_of(found);
  Removals removals{removal_of("adaact", 0, all), removal_of("sgd", 1, all),
                    series_named(name_at_lower_rate(), all)};
  removals.sgd_at_lower_rate.style = removals.sgd.without.style + kSeriesColours.size();
  return removals;
}

Table removal_table(const Removals& removals) {
  Table table{
      "Final test accuracy with batch normalization and without", {{text("Optimizer"), ""}}, {}};
  for (const char* heading : {"With BN", "Without BN", "Lost by the removal"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const auto& removal : {removals.adaact, removals.sgd}) {
    auto row = std::vector<Cell>{{text(removal.with.name), ""}};
    for (const auto& series : {removal.with, removal.without}) {
      auto content = text(percent(final_top1(series)));
      const auto state = state_of(series);
      if (!state.empty()) content += element("span", {{"class", "state"}}, text(state));
      row.push_back({content, "number"});
    }
    row.push_back({text(points(removal.drop())), "number"});
    table.rows.push_back(row);
  }
  return table;
}

std::string drops(const Removals& removals) {
  return "AdaAct loses " + points(removals.adaact.drop()) + ", SGD " + points(removals.sgd.drop()) +
         ": " +
         accuracy_list({removals.adaact.with, removals.adaact.without, removals.sgd.with,
                        removals.sgd.without},
                       final_top1) +
         ".";
}

Finding both_lose(const Removals& removals) {
  const auto [verdict, reason] =
      judge({{"AdaAct's loss", removals.adaact.loss()}, {"SGD's loss", removals.sgd.loss()}});
  return {"Without batch normalization both AdaAct and SGD lose test accuracy.",
          drops(removals) + reason, verdict};
}

Finding adaact_loses_less(const Removals& removals) {
  const auto [verdict, reason] =
      judge({{"the losses of AdaAct and SGD", removals.sgd.loss() - removals.adaact.loss()}});
  return {"AdaAct loses less than SGD when batch normalization is removed.",
          drops(removals) + reason, verdict};
}

Finding adaact_is_better(const Removals& removals) {
  const auto& adaact = removals.adaact.without;
  const auto& sgd = removals.sgd.without;
  const auto [verdict, reason] =
      judge({{"AdaAct and SGD", final_over_seeds(adaact) - final_over_seeds(sgd)}});
  return {"Without batch normalization AdaAct has a higher test accuracy than SGD.",
          accuracy_list({adaact, sgd}, final_top1) + "." + reason, verdict};
}

/// AdaAct beside SGD at the lower rate. The paper says nothing of it, so it is none of its claims.
std::string compared_with_lower_rate(const Removals& removals) {
  const auto& adaact = removals.adaact.without;
  const auto& sgd = removals.sgd_at_lower_rate;
  const auto [verdict, reason] =
      judge({{"AdaAct and SGD", final_over_seeds(adaact) - final_over_seeds(sgd)}});
  const std::string answer = verdict == Finding::Verdict::Agrees      ? "AdaAct."
                             : verdict == Finding::Verdict::Disagrees ? "SGD."
                                                                      : "open.";
  return "Which of the two ends higher without BN, AdaAct at the rate of the table or SGD at " +
         lower_rate() + ": " + answer + " " + accuracy_list({adaact, sgd}, final_top1) + "." +
         reason;
}

class FigNoBatchnorm : public Experiment {
 public:
  std::string name() const override { return "fig-no-batchnorm"; }
  std::string title() const override { return "Figure 6: without batch normalization"; }
  std::string shows() const override {
    return "test accuracy of ResNet-20 with and without batch normalization: AdaAct, SGD";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    for (const char* optimizer : {"adaact", "sgd"}) {
      for (const bool batchnorm : {true, false}) {
        for (const auto seed : seeds_of(form, {0, 1, 2})) {
          plan.runs.push_back(resnet_run(optimizer, batchnorm, form, seed));
        }
      }
    }
    for (const auto seed : seeds_of(form, {0, 1, 2}))
      plan.runs.push_back(run_at_lower_rate(form, seed));
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    const auto removals = removals_of(found);
    page.add_paragraph(
        "The same network, settings and learning rates with batch normalization (BN) and without "
        "it. A run whose gradient or loss is no longer finite has diverged: it ends there, and its "
        "accuracy counts as that of guessing, one in as many as there are classes.");
    page.add_paragraph(
        "The paper does not say at which learning rate η it trained SGD without BN. At the η = 0.1 "
        "of its table SGD can diverge, so it is also shown at " +
        lower_rate() + ": a rate of ours, not of the paper.");
    page.add_figures(
        {page.figure(accuracy_plot(removals.series(), ImageSet::Test), "no_batchnorm_test_accuracy",
                     "After each epoch, the mean of the runs.")});
    page.add_table(removal_table(removals));
    page.add_table(accuracy_table(removals.series()));
    page.add_paragraph(compared_with_lower_rate(removals));
  }

  std::vector<Finding> findings(const Found& found) const override {
    const auto removals = removals_of(found);
    return open_until_complete(
        found, {both_lose(removals), adaact_loses_less(removals), adaact_is_better(removals)});
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    const auto removals = removals_of(found);
    auto json = nlohmann::ordered_json::array();
    for (const auto& series : removals.series()) json.push_back(accuracy_json(series));
    return {{"series", json},
            {"lost_by_adaact", removals.adaact.drop()},
            {"lost_by_sgd", removals.sgd.drop()}};
  }
};

}  // namespace

const Experiment& fig_no_batchnorm() {
  static const FigNoBatchnorm experiment;
  return experiment;
}

}  // namespace adaact
