#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// Which seeds count: those that a plan names, or all that were trained with its settings.
enum class SeedsThatCount : std::uint8_t { Planned, All };

/// What was carried out before: all measurements and finished runs below some folders, found by what
/// they compute. A run that diverged is a result too, but not beside one of the same seed that was finished,
/// in another precision say. Configurations are read at once, metrics when they are asked for.
class RunShelf {
 public:
  /// A folder that is not there is an error. What is in it and cannot be understood is left out, with a
  /// message.
  explicit RunShelf(const std::vector<std::filesystem::path>& folders);

  /// What was carried out of something planned. Of several measurements the first, in the order of the
  /// folders and then of their paths.
  std::optional<Measured> find(const PlannedMeasurement& planned);
  /// All runs, in that order: a mean is of all of them, whoever trained them and wherever they lie. One
  /// that is there twice, as a copy or because it was repeated to the bit, counts once. Runs have
  /// their epochs only, not their steps.
  std::vector<RunHistory> find(const PlannedRun& planned);
  /// A plan's runs and measurements in its order, after them the runs of seeds that it does not name.
  Found find_all(const ExperimentPlan& plan, SeedsThatCount seeds = SeedsThatCount::Planned);

  /// The trained weights of such a run; empty where they were not kept.
  std::filesystem::path find_model(const PlannedRun& planned) const;

  /// What was left out, and why.
  const std::vector<std::string>& messages() const noexcept { return messages_; }

 private:
  using Index = std::map<std::string, std::vector<std::filesystem::path>>;  // by key

  void look_into(const std::filesystem::path& folder);
  void add(const std::filesystem::path& folder);
  void leave_out(const std::filesystem::path& folder, const std::exception& error);

  Index runs_;
  std::map<std::string, std::set<std::uint64_t>> seeds_;  // by key_of_any_seed()
  Index measurements_;
  std::vector<std::string> messages_;
};

}  // namespace adaact
