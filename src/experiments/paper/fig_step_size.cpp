#include <algorithm>
#include <cmath>
#include <utility>

#include <adaact/optim/registry.h>
#include <torch/torch.h>

#include "experiments/measure/neighbouring_data.h"
#include "experiments/measure/step_sizes.h"
#include "experiments/page/curves.h"
#include "experiments/page/training_phases.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/machine.h"
#include "io/joined.h"
#include "report/format.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr char kBetweenIterations[] = "between iterations";
constexpr char kBetweenNeighbours[] = "between neighbouring data sets";

// S′ has the first test image in the place of the first training image.
constexpr std::int64_t kReplaced = 0;
constexpr std::int64_t kReplacement = 0;

// What the paper's words are taken to mean.
constexpr double kGoesToZero = 0.1;   // of what it was at the beginning of training
constexpr double kAlmostZero = 0.01;  // of ‖1/√v̂‖

ordered_json setting_of(const RunConfig& config) {
  return {{"model", config.model},
          {"dataset", config.dataset},
          {"limit_train", config.limit_train},
          {"augment", config.augment},
          {"optimizer_options",
           ordered_json::parse(complete_options(config.optimizer, config.optimizer_options))},
          {"schedule", config.schedule},
          {"epochs", config.epochs},
          {"batch_size", config.batch_size},
          {"idle_in_both", kIdle},
          {"seed", config.seed}};
}

Measured measure_changes(const RunConfig& config, std::int64_t workers, const Progress& progress) {
  const auto changes =
      step_size_changes(config, open_split(config, Split::Train), workers, progress);
  Measured measured;
  measured.values = {{"change", changes.change.to_json()},
                     {"growing", changes.growing.to_json()},
                     {"idle_inputs", changes.idle.to_json()},
                     {"inputs_idle_in_one", changes.idle_in_one.to_json()},
                     {"awake_change", changes.awake_change.to_json()},
                     {"awake_step", changes.awake_step.to_json()},
                     {"awake_root_change", changes.awake_root_change.to_json()}};
  return measured;
}

Measured measure_differences(const RunConfig& config, std::int64_t workers,
                             const Progress& progress) {
  const std::shared_ptr<const Dataset> data = open_split(config, Split::Train);
  const auto neighbour = std::make_shared<NeighbouringDataset>(
      data, kReplaced, *open_split(config, Split::Test), kReplacement);
  const auto differences = neighbour_differences(config, data, neighbour, workers, progress);
  Measured measured;
  measured.values = {{"term_a", differences.term_a.to_json()},
                     {"root_norm", differences.root_norm.to_json()},
                     {"awake_term_a", differences.awake_term_a.to_json()},
                     {"awake_root_norm", differences.awake_root_norm.to_json()},
                     {"term_b", differences.term_b.to_json()},
                     {"delta", differences.delta.to_json()},
                     {"norm", differences.norm.to_json()},
                     {"idle_inputs", differences.idle.to_json()},
                     {"inputs_idle_in_one", differences.idle_in_one.to_json()}};
  return measured;
}

/// A configuration in float32 that computes the same every time: what two trainings differ by shall
/// not be rounding.
RunConfig prepared(const RunConfig& config, const Machine& machine) {
  auto exact = on_machine(config, machine);
  exact.precision = "fp32";
  exact.memory_format = "contiguous";
  exact.deterministic = true;
  return exact;
}

StepRecord record_of(const Measured& measured, const char* name) {
  return StepRecord::from_json(measured.values.at(name));
}

std::vector<double> quotients(const std::vector<double>& dividends,
                              const std::vector<double>& divisors) {
  TORCH_CHECK(dividends.size() == divisors.size(), "records of steps are of ", dividends.size(),
              " and ", divisors.size(), " epochs, expected as many");
  std::vector<double> result;
  for (std::size_t i = 0; i < dividends.size(); ++i) result.push_back(dividends[i] / divisors[i]);
  return result;
}

std::vector<double> sums_so_far(std::vector<double> values) {
  for (std::size_t i = 1; i < values.size(); ++i) values[i] += values[i - 1];
  return values;
}

/// A measurement of several seeds.
using OfSeeds = std::vector<const Measured*>;

/// A part of a record that is a curve: its means, its maxima or its first steps.
using CurveOf = const std::vector<double>& (StepRecord::*)() const;

/// The curve of each seed.
std::vector<std::vector<double>> curves_of(const OfSeeds& measured, const char* record,
                                           CurveOf curve) {
  std::vector<std::vector<double>> curves;
  for (const auto* each : measured) curves.push_back((record_of(*each, record).*curve)());
  return curves;
}

/// The mean of curves at 1, 2, …
Series mean_series(const std::string& name, const std::vector<std::vector<double>>& curves,
                   std::size_t style) {
  Series series{name, {}, style};
  for (const auto& mean : mean_of_curves(curves)) {
    series.points.push_back(with_band(static_cast<double>(series.points.size() + 1), mean));
  }
  return series;
}

std::string mean_of_last_epoch(const OfSeeds& measured, const char* record) {
  return fixed(mean_of_curves(curves_of(measured, record, &StepRecord::means)).back().mean, 1);
}

Plot logarithmic_plot(const std::string& title, const std::string& against, const std::string& what,
                      std::vector<Series> series) {
  Plot plot{title, {against}, {what}, std::move(series)};
  plot.x.whole_numbers = true;
  plot.x.tight = true;
  plot.y.scale = Scale::Logarithmic;
  return plot;
}

/// "from 1.2e-05 to 3e-09": means over the first and the last tenth of training.
std::string from_to(const std::vector<double>& epochs, std::string (*format)(double)) {
  return "from " + format(mean_of_first_tenth(epochs)) + " to " +
         format(mean_of_last_tenth(epochs));
}
constexpr char kOverTraining[] = "From the first to the last tenth of training ";

void draw_changes(const OfSeeds& measured, Page& page) {
  const auto series = [&](const char* name, const char* record, std::size_t style,
                          CurveOf curve = &StepRecord::means) {
    return mean_series(name, curves_of(measured, record, curve), style);
  };
  page.add_figures(
      {page.figure(
           logarithmic_plot(
               "Change of the step between iterations", "epochs", "change of η/√v̂",
               {series("all weights", "change", 0), series("of awake inputs", "awake_change", 1)}),
           "step_change", "Mean over weights and over the steps of each epoch."),
       page.figure(
           logarithmic_plot(
               "The same beside the step itself", "epochs", "mean over weights",
               {series("step η_t/√v̂_t", "awake_step", 2), series("change", "awake_change", 1)}),
           "step_size", "Of awake inputs. Mean of each epoch."),
       page.figure(logarithmic_plot("Change of 1/√v̂ alone", "epochs", "in proportion to 1/√v̂",
                                    {series("mean", "awake_root_change", 0),
                                     series("largest of the epoch", "awake_root_change", 1,
                                            &StepRecord::maxima)}),
                   "root_change",
                   "Of awake inputs. Without η, which falls from epoch to epoch whatever they do."),
       page.figure(logarithmic_plot(
                       "The first steps", "steps, from the second", "change of η/√v̂",
                       {series("all weights", "change", 0, &StepRecord::first_steps),
                        series("of awake inputs", "awake_change", 1, &StepRecord::first_steps)}),
                   "step_change_first", "Mean over weights.")});
}

void draw_differences(const OfSeeds& measured, Page& page) {
  const auto series = [&](const char* name, const char* record, std::size_t style,
                          CurveOf curve = &StepRecord::means) {
    return mean_series(name, curves_of(measured, record, curve), style);
  };
  auto sums_of_term_a = curves_of(measured, "term_a", &StepRecord::means);
  for (auto& curve : sums_of_term_a) curve = sums_so_far(std::move(curve));
  page.add_figures(
      {page.figure(
           logarithmic_plot("Steps under neighbouring data sets", "epochs", "norm over weights",
                            {series("term A: ‖1/√v̂ − 1/√v̂′‖", "term_a", 0),
                             series("its part of inputs awake in both", "awake_term_a", 1),
                             series("‖1/√v̂‖", "root_norm", 2)}),
           "neighbours_term_a", "Mean of each epoch."),
       page.figure(logarithmic_plot("Distance of the two models", "epochs", "norm over parameters",
                                    {series("Δ = ‖θ − θ′‖", "delta", 0),
                                     series("term B", "term_b", 1), series("‖θ‖", "norm", 2)}),
                   "neighbours_delta", "Mean of each epoch."),
       page.figure(logarithmic_plot("Sum of term A", "epochs", "sum of the epochs' means",
                                    {mean_series("term A", sums_of_term_a, 0)}),
                   "neighbours_sum",
                   "Times the steps of an epoch, this is the sum in the theorem."),
       page.figure(logarithmic_plot("The first steps", "steps", "norm",
                                    {series("term A", "term_a", 0, &StepRecord::first_steps),
                                     series("Δ", "delta", 1, &StepRecord::first_steps),
                                     series("‖1/√v̂‖", "root_norm", 2, &StepRecord::first_steps)}),
                   "neighbours_first",
                   "Nothing differs before the step that sees the other sample.")});
}

std::vector<Finding> findings_of_changes(const Measured& measured) {
  const auto change = record_of(measured, "change").means();
  const auto awake_change = record_of(measured, "awake_change").means();
  const auto root_change = record_of(measured, "awake_root_change").means();
  const auto growing = record_of(measured, "growing").means();
  const auto goes_to_zero = [](double now, double before) { return now <= kGoesToZero * before; };
  const bool falls =
      goes_to_zero(mean_of_last_tenth(awake_change), mean_of_first_tenth(awake_change));
  const auto later = mean_of_second_tenth(root_change);
  const bool falls_without_rate = goes_to_zero(mean_of_last_tenth(root_change), later);
  return {
      {"The effective step changes less and less: η_t/√v̂_t − η_{t−1}/√v̂_{t−1} → 0.",
       kOverTraining + ("its mean size goes " + from_to(change, rounded)) +
           ", of inputs that are awake before and after the step " +
           from_to(awake_change, rounded) +
           ". So it must with η, which goes to 0. Without η, of 1/√v̂ alone and in proportion to "
           "it, the change goes " +
           from_to(root_change, rounded) + ", and was " + rounded(later) +
           " in the second tenth already. Taken for going to 0: at most " + percent(kGoesToZero) +
           " is left, of the first tenth with η, of the second without. With η alone it is open.",
       !falls               ? Finding::Verdict::Disagrees
       : falls_without_rate ? Finding::Verdict::Agrees
                            : Finding::Verdict::Open},
      {"Assumption A5: from some iteration on no effective step grows.",
       kOverTraining +
           ("the share of weights whose step grows in an iteration goes " +
            from_to(growing, percent)) +
           ". Taken for true: none in the last tenth.",
       verdict_if(mean_of_last_tenth(growing) == 0.0)}};
}

std::vector<Finding> findings_of_differences(const Measured& measured) {
  const auto term_a = record_of(measured, "term_a").means();
  const auto relative = quotients(term_a, record_of(measured, "root_norm").means());
  const auto awake = quotients(record_of(measured, "awake_term_a").means(),
                               record_of(measured, "awake_root_norm").means());
  const auto delta = record_of(measured, "delta").means();
  const auto apart = quotients(delta, record_of(measured, "norm").means());
  const auto largest = *std::max_element(relative.begin(), relative.end());
  return {{"Between neighbouring data sets 1/√v̂ hardly differs: term A of the stability theorem is "
           "almost zero across iterations.",
           kOverTraining + ("‖1/√v̂ − 1/√v̂′‖ goes " + from_to(term_a, rounded)) +
               "; in proportion to ‖1/√v̂‖ " + from_to(relative, percent) +
               ", and of inputs that are awake under both data sets " + from_to(awake, percent) +
               ". Taken for almost zero: at most " + percent(kAlmostZero) +
               " in every epoch, of all inputs; the largest is " + percent(largest) + ".",
           verdict_if(largest <= kAlmostZero)},
          {"The two models stay near each other.",
           kOverTraining + ("Δ goes " + from_to(delta, rounded)) + "; in proportion to ‖θ‖ " +
               from_to(apart, percent) +
               ". The theorem's bound for it has constants that are not known.",
           Finding::Verdict::Open}};
}

/// Numbers of which every one is the record of an epoch or more, those that are divided by one another of
/// as many.
void check_changes(const Measured& measured) {
  for (const auto* name : {"idle_inputs", "inputs_idle_in_one", "awake_step"}) {
    record_of(measured, name);
  }
  findings_of_changes(measured);
}

void check_differences(const Measured& measured) {
  for (const auto* name : {"idle_inputs", "inputs_idle_in_one", "term_b"}) {
    record_of(measured, name);
  }
  findings_of_differences(measured);
}

bool has_several_seeds(const Found& found) {
  const auto seed_of = [](const Found::Measurement& each) {
    return each.planned.setting.at("seed");
  };
  return std::any_of(found.measurements.begin(), found.measurements.end(), [&](const auto& each) {
    return seed_of(each) != seed_of(found.measurements.front());
  });
}

/// What all seeds measured of one difference; nothing where no seed did.
void draw_difference(const char* difference, void (*draw_figures)(const OfSeeds&, Page&),
                     const Found& found, Page& page) {
  OfSeeds measured;
  std::vector<std::string> seeds;
  for (const auto& each : found.measurements) {
    if (!each.measured || each.planned.series != difference) continue;
    measured.push_back(&*each.measured);
    seeds.push_back(each.planned.setting.at("seed").dump());
  }
  if (measured.empty()) return;
  page.add_heading(std::string("Difference ") + difference);
  page.add_paragraph(seeds.size() == 1 ? "Seed " + seeds.front() + "."
                                       : "The mean of seeds " + joined(seeds) +
                                             ", with a band of its standard error.");
  draw_figures(measured, page);
  page.add_paragraph(
      "Idle inputs in the last epoch: " + mean_of_last_epoch(measured, "idle_inputs") +
      " in the mean, left out; idle on one side only, and not left out: " +
      mean_of_last_epoch(measured, "inputs_idle_in_one") + ".");
}

class StepSize : public Experiment {
 public:
  std::string name() const override { return "fig-step-size"; }
  std::string title() const override { return "Figure 5: differences of the effective step"; }
  std::string shows() const override {
    return "LeNet-5: η/√v̂ between iterations and between neighbouring data sets";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    ExperimentPlan plan;
    for (const auto seed : seeds_of(form, {0, 1, 2})) {
      auto config = paper_run("adaact", "lenet5", dataset_of(form, "fashion-mnist"), seed);
      config.augment = false;  // the two data sets are to differ in one image, and not in its crops
      if (form.quick) shrink(config);
      plan.measurements.push_back(
          {kBetweenIterations,
           setting_of(config),
           std::nullopt,
           [config](const Machine& machine, const std::filesystem::path& /*model_file*/,
                    const Progress& progress) {
             return measure_changes(prepared(config, machine), machine.workers, progress);
           },
           {config},
           0.0,
           {"awake_root_change"},
           check_changes});
      config.schedule = "constant";  // the theorem's
      auto setting = setting_of(config);
      setting["replaced"] = "training image " + std::to_string(kReplaced) + " by test image " +
                            std::to_string(kReplacement);
      plan.measurements.push_back(
          {kBetweenNeighbours,
           setting,
           std::nullopt,
           [config](const Machine& machine, const std::filesystem::path& /*model_file*/,
                    const Progress& progress) {
             return measure_differences(prepared(config, machine), machine.workers, progress);
           },
           {config, config},
           0.0,
           {"awake_term_a", "awake_root_norm"},
           check_differences});
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    page.add_paragraph(
        "The effective step of a weight is η/√v̂, as the optimizer has it: bias corrected, with ε. "
        "Every weight counts, but for biases, whose v̂ is 1. An input is idle if it has been silent "
        "from the beginning or for thousands of steps (v̂ < " +
        rounded(kIdle) +
        "); its weights are left out where it is idle before and after the step, or under both "
        "data sets. Images are not augmented. Neighbouring data sets differ in the first training "
        "image: in its place one has the first test image. The two models begin with the same "
        "weights, see the samples in the same order, and keep the learning rate that they begin "
        "with.");
    draw_difference(kBetweenIterations, draw_changes, found, page);
    draw_difference(kBetweenNeighbours, draw_differences, found, page);
  }

  std::vector<Finding> findings(const Found& found) const override {
    std::vector<Finding> all;
    const bool several_seeds = has_several_seeds(found);
    for (const auto& [planned, measured] : found.measurements) {
      if (!measured) continue;
      const auto some = planned.series == kBetweenIterations ? findings_of_changes(*measured)
                                                             : findings_of_differences(*measured);
      for (auto finding : some) {
        if (several_seeds) {
          finding.claim = "Seed " + planned.setting.at("seed").dump() + ": " + finding.claim;
        }
        all.push_back(std::move(finding));
      }
    }
    return all;
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    auto list = ordered_json::array();
    for (const auto& [planned, measured] : found.measurements) {
      if (!measured) continue;
      list.push_back({{"difference", planned.series},
                      {"setting", planned.setting},
                      {"values", measured->values}});
    }
    return {{"measurements", list}};
  }
};

}  // namespace

const Experiment& fig_step_size() {
  static const StepSize experiment;
  return experiment;
}

}  // namespace adaact
