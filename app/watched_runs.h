#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <adaact/report/report.h>

#include "report/named_runs.h"

namespace adaact::app {

/// The report on runs that are still training, made anew when their folders have changed. All methods may
/// be called from several threads.
class WatchedRuns {
 public:
  WatchedRuns(std::vector<std::filesystem::path> folders, ReportOptions options);

  /// Changes with the page.
  std::string version();
  std::string page();

 private:
  /// What is looked at to see whether a run has gone on.
  struct Signature {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type time;
    bool has_details = false;
    bool has_model = false;

    bool operator==(const Signature& other) const;
  };
  static Signature signature_of(const std::filesystem::path& folder);
  void look();
  bool has_changed(const std::vector<std::filesystem::path>& found) const;
  void read(const std::vector<std::filesystem::path>& found);

  const std::vector<std::filesystem::path> folders_;
  const ReportOptions options_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Signature> known_;
  std::vector<NamedRun> runs_;
  std::int64_t version_ = 0;
  std::string page_;
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace adaact::app
