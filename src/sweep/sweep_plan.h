#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <adaact/train/run_config.h>

namespace adaact {

/// What a sweep tries: each optimizer with each learning rate and each weight decay, or with values drawn
/// between the least and the greatest of them.
struct SweepPlan {
  /// What all trials have in common. Its optimizer is not used; its options are further ones, of every
  /// optimizer.
  RunConfig base;
  std::vector<std::string> optimizers;
  std::vector<double> learning_rates;                            // of every optimizer that has
  std::map<std::string, std::vector<double>> learning_rates_of;  // none of its own here
  std::vector<double> weight_decays;                             // empty: the optimizer's own
  std::int64_t draws = 0;  // of each optimizer, log-uniform; 0: the whole grid

  /// Checks everything, with errors that name the thing, its value and what was expected, and puts actual
  /// values in the place of defaults.
  void resolve();

  /// How many trials there are at most.
  std::size_t size() const;

  std::string to_json() const;
  static SweepPlan from_json(const std::string& text, const std::string& source);
};

/// One run of a sweep.
struct Trial {
  std::string name;  // "adaact-lr-0.1-wd-0.002", also of its folder
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  RunConfig config;
};

/// The trials of a plan that was resolved, optimizer by optimizer. What is drawn depends on the seed and on
/// the limits alone: a further optimizer is tried with the same values, and more draws begin with the same
/// ones.
std::vector<Trial> trials_of(const SweepPlan& plan);

/// Why a plan cannot take the place of the one that is there, one line for each thing; empty where it only
/// adds trials.
std::vector<std::string> conflicts(const SweepPlan& plan, const SweepPlan& there);

/// A number with as few digits as say which it is: 0.0005, 1e-05.
std::string shortest(double value);

}  // namespace adaact
