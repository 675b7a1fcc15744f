#pragma once

#include <filesystem>

#include <adaact/train/trainer.h>

#include "train/append_log.h"

namespace adaact {

/// How much a run has written, in bytes.
struct JournalSize {
  std::int64_t metrics_bytes = 0;
  std::int64_t event_bytes = 0;
};

/// What a run writes as it goes: metrics.jsonl, and the same numbers for TensorBoard.
class RunJournal : public TrainingCallback {
 public:
  /// Cuts the files back to where a checkpoint was taken and goes on from there.
  RunJournal(const std::filesystem::path& folder, const JournalSize& size);

  void on_step(const Trainer& trainer, const StepMetrics& metrics) override;
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override;

  /// Brings all to the disk and says how much it is.
  JournalSize flush();

 private:
  AppendLog metrics_;
  AppendLog events_;
};

}  // namespace adaact
