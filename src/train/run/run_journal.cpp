#include "train/run/run_journal.h"

#include <chrono>
#include <vector>

#include "train/run/event_file.h"
#include "train/run/metrics_record.h"
#include "train/run/run_file_names.h"

namespace adaact {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard knows event files by their name; one without a time can be found again.
constexpr char kEvents[] = "events.out.tfevents.0.adaact";

/// `size`, or 0 where the file does not have so much any more.
std::int64_t usable_size(const std::filesystem::path& path, std::int64_t size,
                         const std::function<void(const std::string&)>& warn) {
  std::error_code none;
  const auto there = std::filesystem::file_size(path, none);
  if (size == 0 || (!none && static_cast<std::int64_t>(there) >= size)) return size;
  warn(path.string() + " is gone or has become shorter; it begins anew");
  return 0;
}

}  // namespace

RunJournal::RunJournal(const std::filesystem::path& folder, const JournalSize& size,
                       const std::function<void(const std::string&)>& warn)
    : metrics_(folder / kMetricsFile, size.metrics_bytes),
      events_(folder / kEvents, usable_size(folder / kEvents, size.event_bytes, warn)) {
  if (events_.size() == 0) events_.append(event_file_header(wall_time()));
}

void RunJournal::on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) {
  std::vector<Scalar> scalars{{"train/loss", metrics.loss},
                              {"train/top1", metrics.top1},
                              {"train/seconds", metrics.seconds},
                              {"train/wait_seconds", metrics.wait_seconds},
                              {"train/images_per_second", metrics.images_per_second},
                              {"train/learning_rate", metrics.learning_rate},
                              {"train/gradient_norm", metrics.gradient_norm}};
  if (metrics.update_norm) scalars.push_back({"train/update_norm", *metrics.update_norm});
  metrics_.append(to_record(metrics).dump() + "\n");
  events_.append(event_record(wall_time(), metrics.step, scalars));
}

void RunJournal::on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) {
  std::vector<Scalar> scalars{{"epoch/train_loss", metrics.train_loss},
                              {"epoch/train_top1", metrics.train_top1},
                              {"epoch/test_loss", metrics.test.loss},
                              {"epoch/test_top1", metrics.test.top1},
                              {"epoch/test_top5", metrics.test.top5},
                              {"epoch/seconds", metrics.seconds},
                              {"epoch/images_per_second", metrics.images_per_second}};
  for (const auto& [name, value] : metrics.second_moments) {
    scalars.push_back({"second_moment/" + name, value});
  }
  metrics_.append(to_record(metrics).dump() + "\n");
  events_.append(event_record(wall_time(), metrics.step, scalars));
}

void RunJournal::note_divergence(const Divergence& divergence) {
  metrics_.append(to_record(divergence).dump() + "\n");
  flush();
}

JournalSize RunJournal::flush() {
  metrics_.flush();
  events_.flush();
  return {metrics_.size(), events_.size()};
}

}  // namespace adaact
