#pragma once

#include <string>
#include <vector>

#include "report/named_runs.h"

namespace adaact {

/// Runs of one configuration, one for each seed in the order of the seeds: they are one curve and one row.
struct RunGroup {
  std::string name;
  std::vector<const NamedRun*> runs;  // one at least

  const RunConfig& config() const { return runs.front()->history.config; }
};

/// Puts together what differs in its seed alone, and in where it ran: the device, the threads and the
/// place of the data. Groups are in the order of their first runs. A second run of a seed is not one more
/// seed: it is in a group of its own. Groups refer to `runs`, which must outlive them.
std::vector<RunGroup> groups_of(const std::vector<NamedRun>& runs);

/// Each run as a group.
std::vector<RunGroup> each_alone(const std::vector<NamedRun>& runs);

}  // namespace adaact
