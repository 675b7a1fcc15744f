#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <adaact/train/trainer.h>

#include "train/run/append_log.h"

namespace adaact {

/// How much a run has written, in bytes.
struct JournalSize {
  std::int64_t metrics_bytes = 0;
  std::int64_t event_bytes = 0;
};

/// What a run writes as it goes: metrics.jsonl, and the same numbers for TensorBoard.
class RunJournal : public TrainingCallback {
 public:
  /// Cuts the files back to where a checkpoint was taken and goes on from there. An event file that is
  /// gone begins anew, and `warn` is told: everything in it is in metrics.jsonl too.
  RunJournal(const std::filesystem::path& folder, const JournalSize& size,
             const std::function<void(const std::string&)>& warn);

  void on_step(const Trainer& trainer, const StepMetrics& metrics) override;
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override;

  /// The last line of a run, brought to the disk at once: an error follows.
  void note_divergence(const Divergence& divergence);

  /// Brings all to the disk and says how much it is.
  JournalSize flush();

 private:
  AppendLog metrics_;
  AppendLog events_;
};

}  // namespace adaact
