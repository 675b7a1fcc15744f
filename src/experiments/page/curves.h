#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <adaact/report/run_history.h>
#include <nlohmann/json.hpp>

#include "experiments/shelf/experiment.h"
#include "report/mean_and_error.h"
#include "report/page.h"
#include "report/plot.h"

namespace adaact {

// What figures that compare training runs have in common.

/// The runs that a legend calls by one name: all that were carried out with one setting. Not one for each
/// seed, because a seed may have been trained more than once.
struct RunSeries {
  std::string name;
  std::size_t style = 0;  // in plots
  std::vector<const RunHistory*> runs;
};

/// The mean of several curves in each place that all of them have.
std::vector<MeanAndError> mean_of_curves(const std::vector<std::vector<double>>& curves);
/// A point with a band of its standard error; without one where that is not known.
Point with_band(double x, const MeanAndError& y);

/// The different seeds of such runs.
std::set<std::uint64_t> seeds_in(const std::vector<const RunHistory*>& runs);
/// "1 seed", "5 seeds", "13 runs of 8 seeds".
std::string count_text(const std::vector<const RunHistory*>& runs);

/// All series of a plan, in its order. They refer to `found`, which must outlive them.
std::vector<RunSeries> series_of(const Found& found);
const RunSeries& series_named(const std::string& name, const std::vector<RunSeries>& all);

enum class ImageSet : std::uint8_t { Train, Test };

/// An axis that counts epochs from the beginning of training.
Axis epoch_axis();
/// Top-1 after each epoch, the mean of the runs with a band of its standard error; of a run that diverged with
/// the accuracy of guessing in the epochs that it lacks.
Plot accuracy_plot(const std::vector<RunSeries>& all, ImageSet images);
/// Test top-1 in the same way against the seconds of the fastest run.
Plot accuracy_by_seconds_plot(const std::vector<RunSeries>& all);

/// What those plots show of a series: test accuracies after each epoch that all of its runs have, and
/// seconds of training.
std::vector<MeanAndError> mean_test_accuracies(const std::vector<const RunHistory*>& runs);
/// Seconds of training at the end of each epoch, of the fastest run that did not diverge: others may have shared
/// their machine. Empty where there is none.
std::vector<double> fastest_seconds(const std::vector<const RunHistory*>& runs);

// Test accuracy as a fraction. A run that ended because it diverged has learned nothing that lasts: in
// the epochs that it lacks its accuracy counts as that of guessing.

/// Test accuracy after the last epoch; NaN before the first one.
double final_top1_of_run(const RunHistory& run);

/// The fastest of the runs that did not diverge; null where all of them did.
const RunHistory* fastest_of(const std::vector<const RunHistory*>& runs);
/// The seconds that it was trained; nothing where all of them diverged.
std::optional<double> fastest_training(const std::vector<const RunHistory*>& runs);

// Test accuracies of a series, the mean of its runs; NaN where there is no run.
double final_top1(const RunSeries& series);
double best_top1(const RunSeries& series);
/// The mean over the first tenth of the epochs: higher where training converges faster.
double early_top1(const RunSeries& series);

/// "diverged in epoch 3", "not carried out yet"; empty where all is well.
std::string state_of(const RunSeries& series);

/// A cell with a series' line in the plots, its name and its state.
Cell series_cell(const RunSeries& series);
/// Final and best test accuracy, with standard errors where there are several runs.
Table accuracy_table(const std::vector<RunSeries>& all);
nlohmann::ordered_json accuracy_json(const RunSeries& series);

/// "AdaAct 68.31 %, SGD 10.00 % (diverged in epoch 3)": final_top1(), best_top1() or early_top1().
std::string accuracy_list(const std::vector<RunSeries>& all, double (*accuracy)(const RunSeries&));
/// 0.0123 as "1.23 points".
std::string points(double fraction);

/// With fewer seeds on either side accuracies are not compared: how far seeds alone differ is not known.
inline constexpr std::size_t kFewestSeeds = 3;

/// An accuracy as several seeds have it, a fraction; or a difference or a mean of such.
struct OverSeeds {
  double mean = 0.0;            // NaN where there is none
  double standard_error = 0.0;  // NaN of fewer than two runs
  std::size_t seeds = 0;        // the fewest of its parts
  std::size_t most_seeds = 0;   // the most of its parts
};

OverSeeds final_over_seeds(const RunSeries& series);
OverSeeds early_over_seeds(const RunSeries& series);
OverSeeds operator-(const OverSeeds& one, const OverSeeds& other);
OverSeeds average(const std::vector<OverSeeds>& parts);

/// A difference that is positive where the paper is right.
struct Lead {
  std::string of_what;  // "AdaAct and SGD"
  OverSeeds size;
};

struct Judgement {
  Finding::Verdict verdict = Finding::Verdict::Open;
  std::string reason;  // why it is open, as a sentence after a space; else empty
};

/// The one rule for accuracies. A claim agrees where all of its leads are above twice their standard
/// error, and disagrees where one of them is below minus that. Else it is open, as it is with fewer
/// seeds than kFewestSeeds.
Judgement judge(const std::vector<Lead>& leads);

/// The findings as they are, or all of them open while runs are missing.
std::vector<Finding> open_until_complete(const Found& found, std::vector<Finding> findings);

}  // namespace adaact
