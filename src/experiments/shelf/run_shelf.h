#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// What was carried out before: all measurements and finished runs below some folders, found by what
/// they compute. A run that diverged is a result too, but one that was finished, in another precision say,
/// goes first. Configurations are read at once, metrics when they are asked for.
class RunShelf {
 public:
  /// A folder that is not there is an error. What is in it and cannot be understood is left out, with a
  /// message.
  explicit RunShelf(const std::vector<std::filesystem::path>& folders);

  /// What was carried out of something planned. Of several the first, in the order of the folders
  /// and then of their paths. A run has its epochs only, not its steps.
  std::optional<RunHistory> find(const PlannedRun& planned);
  std::optional<Measured> find(const PlannedMeasurement& planned);
  Found find_all(const ExperimentPlan& plan);

  /// The trained weights of such a run; empty where they were not kept.
  std::filesystem::path find_model(const PlannedRun& planned) const;

  /// What was left out, and why; which of several was taken.
  const std::vector<std::string>& messages() const noexcept { return messages_; }

 private:
  using Index = std::map<std::string, std::vector<std::filesystem::path>>;  // by key

  void look_into(const std::filesystem::path& folder);
  void add(const std::filesystem::path& folder);
  void tell_of_others(const std::filesystem::path& chosen,
                      const std::vector<std::filesystem::path>& all);
  void leave_out(const std::filesystem::path& folder, const std::exception& error);

  Index runs_;
  Index measurements_;
  std::vector<std::string> messages_;
};

}  // namespace adaact
