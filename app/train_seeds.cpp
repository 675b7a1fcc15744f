#include "train_seeds.h"

#include <cmath>
#include <cstdio>

#include <adaact/optim/non_finite.h>
#include <adaact/report/run_history.h>
#include <adaact/train/seed_runs.h>

#include "commands.h"
#include "io/error_text.h"
#include "progress.h"
#include "report/mean_and_error.h"
#include "run_summary.h"
#include "smaller_rate.h"
#include "train_block.h"

namespace adaact::app {
namespace {

using nlohmann::json;
using Outcomes = std::vector<SeedRuns::Outcome>;

/// What the folder of a finished run says.
struct FinishedRun {
  std::uint64_t seed = 0;
  EpochMetrics last;
};

std::string error_of(const SeedRuns::Outcome& outcome, const RunConfig& config) {
  try {
    std::rethrow_exception(outcome.error);
  } catch (const NonFiniteError& error) {
    return error_text_within_line(error) + advice_after_divergence(config);
  } catch (const std::exception& error) {
    return error_text_within_line(error);
  }
}

std::vector<FinishedRun> finished_runs(const SeedRuns& runs, const Outcomes& outcomes) {
  std::vector<FinishedRun> finished;
  for (const auto& outcome : outcomes) {
    if (outcome.error || outcome.result.status == RunResult::Status::Interrupted) continue;
    const auto folder = runs.folder_of(outcome.seed);
    const auto history = RunHistory::read(folder);
    if (history.epochs.empty()) {
      print_notice(folder.string() + " holds a model, but no metrics of an epoch: left out");
    } else {
      finished.push_back({outcome.seed, history.epochs.back()});
    }
  }
  return finished;
}

MeanAndError top1_of(const std::vector<FinishedRun>& finished) {
  std::vector<double> values;
  for (const auto& run : finished) values.push_back(run.last.test.top1);
  return mean_and_error(values);
}

void print_table(const std::vector<FinishedRun>& finished) {
  if (finished.empty()) return;
  std::printf("\n%6s  train loss  test loss  test top-1  seconds\n", "seed");
  for (const auto& [seed, last] : finished) {
    std::printf("%6lu  %10.4f  %9.4f  %8.2f %%  %7.1f\n", seed, last.train_loss, last.test.loss,
                100.0 * last.test.top1, last.seconds);
  }
  const auto top1 = top1_of(finished);
  if (std::isnan(top1.standard_error)) return;
  std::printf("mean of %zu: %.2f %% ± %.2f (standard error)\n", finished.size(), 100.0 * top1.mean,
              100.0 * top1.standard_error);
}

void print_summary(const SeedRuns& runs, const Outcomes& outcomes,
                   const std::vector<FinishedRun>& finished, const RunConfig& config) {
  auto each = json::array();
  for (const auto& outcome : outcomes) {
    const auto folder = runs.folder_of(outcome.seed);
    if (outcome.error) {
      each.push_back(
          {{"seed", outcome.seed}, {"run", folder.string()}, {"error", error_of(outcome, config)}});
      continue;
    }
    if (!std::filesystem::exists(config_of_run(folder.string()))) continue;  // not begun
    each.push_back(summary_of_run(folder.string(), RunHistory::read(folder)));
    each.back()["seed"] = outcome.seed;
  }
  json summary{{"runs", each}, {"finished", finished.size()}};
  if (!finished.empty()) {
    const auto top1 = top1_of(finished);
    summary["test_top1_mean"] = top1.mean;
    summary["test_top1_standard_error"] = top1.standard_error;  // null of a single one
  }
  print_json(summary);
}

int exit_code_of(const Outcomes& outcomes, const RunConfig& config, const std::string& out,
                 Verbosity verbosity) {
  int exit_code = 0;
  for (const auto& outcome : outcomes) {
    if (!outcome.error && outcome.result.status == RunResult::Status::Interrupted) {
      exit_code = 128 + outcome.result.signal;
    }
  }
  if (exit_code != 0) say(verbosity, interrupted_text(out));
  for (const auto& outcome : outcomes) {
    if (!outcome.error) continue;
    print_message("seed " + std::to_string(outcome.seed) + ": " + error_of(outcome, config));
    exit_code = 1;
  }
  return exit_code;
}

}  // namespace

int train_seeds(RunConfig config, const std::vector<std::uint64_t>& seeds, const std::string& out,
                const RunSettings& settings, Verbosity verbosity) {
  SeedRuns runs(config, seeds, out, settings);
  config.resolve();
  const auto obstacle = runs.obstacle_to_concurrency();
  if (!obstacle.empty() && seeds.size() > 1)
    settings.on_message("one seed after the other: " + obstacle);
  const auto outcomes = runs.run(make_progress_of_seeds(verbosity, [&](const Trainer& trainer) {
    std::printf("%s", train_block(config, out, seeds, trainer).c_str());
  }));
  const auto finished = finished_runs(runs, outcomes);
  if (verbosity == Verbosity::Normal) print_table(finished);
  if (verbosity == Verbosity::Json) print_summary(runs, outcomes, finished, config);
  const auto exit_code = exit_code_of(outcomes, config, out, verbosity);
  if (exit_code == 0) say(verbosity, "the models are in " + out);
  return exit_code;
}

}  // namespace adaact::app
