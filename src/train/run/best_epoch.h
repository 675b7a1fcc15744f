#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <adaact/train/metrics.h>

namespace adaact {

/// Which epoch has had the best test accuracy so far, and how many there were since.
class BestEpoch {
 public:
  BestEpoch() = default;
  /// Of the epochs in the first `bytes` of a metrics.jsonl: those that a checkpoint knows.
  BestEpoch(const std::filesystem::path& metrics_file, std::int64_t bytes);

  /// Returns whether it is better than all before.
  bool add(const EpochMetrics& epoch);

  /// Epochs since the best one.
  std::int64_t since() const noexcept { return seen_ - best_; }
  bool has_any() const noexcept { return best_ > 0; }

  /// "81.25 % of epoch 4"
  std::string text() const;

 private:
  std::int64_t seen_ = 0;
  std::int64_t best_ = 0;  // counted from 1; 0: none yet
  double top1_ = -1.0;
};

}  // namespace adaact
