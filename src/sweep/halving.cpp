#include "sweep/halving.h"

#include <algorithm>
#include <numeric>

namespace adaact {
namespace {

constexpr std::int64_t kFactor = 3;

std::size_t best_third(std::size_t trials) { return (trials + 2) / 3; }

bool has_come_to(const Standing& trial, std::int64_t rung) {
  return static_cast<std::int64_t>(trial.accuracies.size()) >= rung;
}

}  // namespace

std::vector<std::int64_t> halving_rungs(std::int64_t epochs, std::size_t trials) {
  std::size_t wanted = 0;
  for (auto left = trials; left > 1; left = best_third(left)) ++wanted;
  std::vector<std::int64_t> rungs;
  for (std::int64_t rung = 1; rung <= epochs / kFactor; rung *= kFactor) rungs.push_back(rung);
  if (rungs.size() > wanted) rungs.erase(rungs.begin(), rungs.end() - static_cast<long>(wanted));
  return rungs;
}

Halving halve(const std::vector<Standing>& trials, const std::vector<std::int64_t>& rungs,
              std::int64_t epochs) {
  Halving decided{std::vector<std::int64_t>(trials.size(), 0),
                  std::vector<bool>(trials.size(), false)};
  std::vector<std::size_t> still_in(trials.size());
  std::iota(still_in.begin(), still_in.end(), 0U);
  auto due = epochs;
  for (const auto rung : rungs) {
    for (const auto index : still_in) decided.epochs[index] = rung;
    const auto is_waited_for = [&](std::size_t index) {
      return !trials[index].lost && !has_come_to(trials[index], rung);
    };
    if (std::any_of(still_in.begin(), still_in.end(), is_waited_for)) {
      due = rung;
      break;
    }
    const auto places = best_third(still_in.size());
    const auto is_lost = [&](std::size_t index) { return trials[index].lost; };
    still_in.erase(std::remove_if(still_in.begin(), still_in.end(), is_lost), still_in.end());
    std::stable_sort(still_in.begin(), still_in.end(), [&](std::size_t left, std::size_t right) {
      const auto at = static_cast<std::size_t>(rung - 1);
      return trials[left].accuracies[at] > trials[right].accuracies[at];
    });
    if (still_in.size() > places) still_in.resize(places);
  }
  for (const auto index : still_in) {
    decided.epochs[index] = due;
    decided.still_in[index] = !trials[index].lost;
  }
  return decided;
}

}  // namespace adaact
