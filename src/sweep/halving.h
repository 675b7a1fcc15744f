#pragma once

// Successive halving (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML
// 2013; Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
// AISTATS 2016) with a factor of three: at certain epochs, the rungs, the best third goes on.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace adaact {

/// The epochs after which so many trials are compared: of 1, 3, 9, … the last ones that leave a run at
/// least three times as long, and no more than it takes to come down to one trial.
std::vector<std::int64_t> halving_rungs(std::int64_t epochs, std::size_t trials);

/// How far a trial has come.
struct Standing {
  std::vector<double> accuracies;  // after each epoch
  bool lost = false;               // diverged or failed: the worst, whatever it had
};

/// What is decided so far.
struct Halving {
  std::vector<std::int64_t> epochs;  // that each trial is to be trained for
  std::vector<bool> still_in;        // false: others were better, or it is lost
};

/// Where all trials that are still in have come to a rung, the best third of them goes on to the next, and
/// the others stay there. The first wins where two are equal.
Halving halve(const std::vector<Standing>& trials, const std::vector<std::int64_t>& rungs,
              std::int64_t epochs);

}  // namespace adaact
