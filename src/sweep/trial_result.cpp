#include "sweep/trial_result.h"

#include <algorithm>
#include <utility>

#include <adaact/report/run_history.h>

#include "train/run/run_file_names.h"

namespace adaact {
namespace {

int rank_of(TrialState state) {
  switch (state) {
    case TrialState::Finished:
      return 0;
    case TrialState::Unfinished:
    case TrialState::StoppedEarly:
      return 1;
    case TrialState::Diverged:
      return 2;
    case TrialState::Failed:
      return 3;
    case TrialState::NotBegun:
      break;
  }
  return 4;
}

bool is_better(const TrialResult& left, const TrialResult& right) {
  const auto ranks = std::make_pair(rank_of(left.state), rank_of(right.state));
  if (ranks.first != ranks.second) return ranks.first < ranks.second;
  if (left.accuracies.size() != right.accuracies.size()) {
    return left.accuracies.size() > right.accuracies.size();
  }
  return left.accuracy().value_or(0.0) > right.accuracy().value_or(0.0);
}

}  // namespace

const char* to_string(TrialState state) {
  switch (state) {
    case TrialState::NotBegun:
      break;
    case TrialState::Unfinished:
      return "unfinished";
    case TrialState::StoppedEarly:
      return "stopped early";
    case TrialState::Finished:
      return "finished";
    case TrialState::Diverged:
      return "diverged";
    case TrialState::Failed:
      return "failed";
  }
  return "not begun";
}

std::optional<double> TrialResult::accuracy() const {
  return accuracies.empty() ? std::nullopt : std::optional(accuracies.back());
}

TrialResult read_trial(const Trial& trial, const std::filesystem::path& folder) {
  TrialResult result;
  result.trial = trial;
  result.folder = folder;
  if (!std::filesystem::exists(folder / kConfigFile)) return result;
  const auto run = RunHistory::read(folder, RunHistory::Detail::WithoutSteps);
  for (const auto& epoch : run.epochs) result.accuracies.push_back(epoch.test.top1);
  if (!run.epochs.empty()) {
    result.train_loss = run.epochs.back().train_loss;
    result.seconds = run.epochs.back().seconds;
  }
  // All epochs and no model: killed right before the end.
  const bool finished = std::filesystem::exists(folder / kModelFile);
  result.state = finished ? TrialState::Finished : TrialState::Unfinished;
  if (const auto lost = run.diverged_in_epoch()) {
    result.state = TrialState::Diverged;
    result.diverged_in_epoch = *lost;
  }
  return result;
}

std::vector<TrialResult> from_best_to_worst(std::vector<TrialResult> trials) {
  std::stable_sort(trials.begin(), trials.end(), is_better);
  return trials;
}

std::vector<BestTrial> best_trials(const std::vector<TrialResult>& trials) {
  std::vector<BestTrial> all;
  const auto optimizer_of = [](const TrialResult& result) { return result.trial.config.optimizer; };
  for (const auto& result : trials) {
    if (result.state != TrialState::Finished) continue;
    const auto known = std::find_if(all.begin(), all.end(), [&](const BestTrial& best) {
      return optimizer_of(best.result) == optimizer_of(result);
    });
    if (known == all.end()) {
      all.push_back({result});
    } else if (is_better(result, known->result)) {
      known->result = result;
    }
  }
  for (auto& best : all) {
    const auto rate = best.result.trial.learning_rate;
    bool is_least = true;
    bool is_greatest = true;
    for (const auto& other : trials) {
      if (optimizer_of(other) != optimizer_of(best.result)) continue;
      is_least = is_least && rate <= other.trial.learning_rate;
      is_greatest = is_greatest && rate >= other.trial.learning_rate;
    }
    best.is_least_rate = is_least && !is_greatest;
    best.is_greatest_rate = is_greatest && !is_least;
  }
  return all;
}

std::string remark_on(const BestTrial& best) {
  if (best.is_least_rate) return "the least rate tried: try smaller ones";
  if (best.is_greatest_rate) return "the greatest rate tried: try greater ones";
  return "";
}

}  // namespace adaact
