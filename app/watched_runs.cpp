#include "watched_runs.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "io/error_text.h"
#include "report/find_runs.h"
#include "train/run/run_file_names.h"

namespace adaact::app {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Runs need the processor more than their report does: of twenty seconds it takes one.
constexpr int kRestForEachSecond = 20;
constexpr std::chrono::milliseconds kLeastRest{500};

}  // namespace

bool WatchedRuns::Signature::operator==(const Signature& other) const {
  return bytes == other.bytes && time == other.time && has_details == other.has_details &&
         has_model == other.has_model;
}

WatchedRuns::WatchedRuns(std::vector<fs::path> folders, ReportOptions options)
    : folders_(std::move(folders)), options_(std::move(options)) {
  // What is wrong at the beginning is the caller's to hear of.
  read(find_runs(folders_, Absence::IsFine));
}

std::string WatchedRuns::version() {
  const std::lock_guard<std::mutex> lock(mutex_);
  look();
  return std::to_string(version_);
}

std::string WatchedRuns::page() {
  const std::lock_guard<std::mutex> lock(mutex_);
  look();
  return page_;
}

WatchedRuns::Signature WatchedRuns::signature_of(const fs::path& folder) {
  Signature signature;
  std::error_code absent;
  const auto bytes = fs::file_size(folder / kMetricsFile, absent);
  if (!absent) signature.bytes = bytes;
  const auto time = fs::last_write_time(folder / kMetricsFile, absent);
  if (!absent) signature.time = time;
  signature.has_details = fs::exists(folder / kTestDetailsFile, absent);
  signature.has_model = fs::exists(folder / kModelFile, absent);
  return signature;
}

bool WatchedRuns::has_changed(const std::vector<fs::path>& found) const {
  if (found.size() != known_.size()) return true;
  return std::any_of(found.begin(), found.end(), [&](const fs::path& folder) {
    const auto known = known_.find(folder);
    return known == known_.end() || !(known->second == signature_of(folder));
  });
}

void WatchedRuns::look() {
  if (Clock::now() < next_look_) return;
  next_look_ = Clock::now() + kLeastRest;
  try {
    const auto found = find_runs(folders_, Absence::IsFine);
    if (has_changed(found)) read(found);
  } catch (const std::exception&) {
    // A run that is being deleted, say. The page stays as it was, and the next look may see more.
  }
}

void WatchedRuns::read(const std::vector<fs::path>& found) {
  const auto begin = Clock::now();
  std::map<fs::path, Signature> known;
  std::map<fs::path, NamedRun> fresh;
  for (const auto& folder : found) {
    // Before it is read: what is written meanwhile is seen next time.
    known[folder] = signature_of(folder);
    const auto before = known_.find(folder);
    const bool is_read = before != known_.end() && before->second == known[folder];
    if (!is_read) fresh.emplace(folder, read_run(folder));
  }
  // Nothing can go wrong from here on: the runs that are known already may move.
  for (auto& run : runs_) fresh.try_emplace(run.history.folder, std::move(run));
  std::vector<NamedRun> runs;
  runs.reserve(found.size());
  for (const auto& folder : found) runs.push_back(std::move(fresh.at(folder)));
  name_by_folders(runs);
  runs_ = std::move(runs);
  known_ = std::move(known);
  ++version_;
  page_ = live_report(runs_, options_, std::to_string(version_));
  const auto taken = Clock::now() - begin;
  next_look_ = Clock::now() + std::max<Clock::duration>(kLeastRest, taken * kRestForEachSecond);
}

}  // namespace adaact::app
