#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <adaact/report/run_history.h>
#include <nlohmann/json.hpp>

#include "experiments/shelf/experiment.h"
#include "report/page.h"
#include "report/plot.h"

namespace adaact {

// What figures that compare training runs have in common.

/// The runs that a legend calls by one name: one for each seed.
struct RunSeries {
  std::string name;
  std::size_t style = 0;                // in plots
  std::vector<const RunHistory*> runs;  // of the seeds that were carried out
};

/// All series of a plan, in its order. They refer to `found`, which must outlive them.
std::vector<RunSeries> series_of(const Found& found);
const RunSeries& series_named(const std::string& name, const std::vector<RunSeries>& all);

enum class ImageSet : std::uint8_t { Train, Test };

/// An axis that counts epochs from the beginning of training.
Axis epoch_axis();
/// Top-1 after each epoch, the mean of the seeds; of a run that diverged with the accuracy of
/// guessing in the epochs that it lacks.
Plot accuracy_plot(const std::vector<RunSeries>& all, ImageSet images);

/// One run in the place of several seeds, for plots, as far as all of them came. After each epoch it has
/// the mean of their accuracies and the median of their seconds: a seed may have shared its machine.
RunHistory mean_over_seeds(const std::vector<const RunHistory*>& runs);

// Test accuracy as a fraction. A run that ended because it diverged has learned nothing that lasts: in
// the epochs that it lacks its accuracy counts as that of guessing.

/// Test accuracy after the last epoch; NaN before the first one.
double final_top1_of_run(const RunHistory& run);

/// Seconds of training, the median of the runs that did not diverge: one may have shared its
/// machine. Nothing where all of them did.
std::optional<double> median_seconds(const std::vector<const RunHistory*>& runs);

// Test accuracies of a series, the mean of its seeds; NaN where there is no run.
double final_top1(const RunSeries& series);
double best_top1(const RunSeries& series);
/// The mean over the first tenth of the epochs: higher where training converges faster.
double early_top1(const RunSeries& series);

/// "diverged in epoch 3", "not carried out yet"; empty where all is well.
std::string state_of(const RunSeries& series);

/// A cell with a series' line in the plots, its name and its state.
Cell series_cell(const RunSeries& series);
/// Final and best test accuracy, with standard errors where there are several seeds.
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
  double standard_error = 0.0;  // NaN of fewer than two seeds
  std::size_t seeds = 0;        // the fewest of its parts
  std::size_t most_seeds = 0;   // the most of its parts
};

OverSeeds over_seeds(const std::vector<double>& values);
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
