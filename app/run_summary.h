#pragma once

#include <string>

#include <adaact/report/run_history.h>
#include <nlohmann/json.hpp>

#include "run_files.h"

namespace adaact::app {

/// How a run stands, as --json tells it.
inline nlohmann::json summary_of_run(const std::string& folder, const RunHistory& run) {
  nlohmann::json summary{{"run", folder},
                         {"model", model_of_run(folder).string()},
                         {"finished", run.finished},
                         {"epochs", run.epochs.size()}};
  const auto epochs = static_cast<std::int64_t>(run.epochs.size());
  if (run.finished && epochs < run.config.epochs) summary["ended_early"] = true;
  if (run.epochs.empty()) return summary;
  const auto& last = run.epochs.back();
  summary.update({{"steps", last.step},
                  {"train_loss", last.train_loss},
                  {"train_top1", last.train_top1},
                  {"test_loss", last.test.loss},
                  {"test_top1", last.test.top1},
                  {"test_top5", last.test.top5},
                  {"seconds", last.seconds}});
  return summary;
}

}  // namespace adaact::app
