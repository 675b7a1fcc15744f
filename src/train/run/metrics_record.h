#pragma once

#include <adaact/train/metrics.h>
#include <nlohmann/json.hpp>

namespace adaact {

// The lines of metrics.jsonl. JSON has no number that is not finite: null stands for it, and is read
// as NaN. Layers keep the order of the model.

constexpr char kStepRecord[] = "step";
constexpr char kEpochRecord[] = "epoch";
constexpr char kDivergedRecord[] = "diverged";

nlohmann::ordered_json to_record(const StepMetrics& step);
nlohmann::ordered_json to_record(const EpochMetrics& epoch);
nlohmann::ordered_json to_record(const Divergence& divergence);

/// One of the above, or of a kind that only a newer version knows.
std::string kind_of(const nlohmann::ordered_json& record);

// Errors, nlohmann's or c10's, say what is missing or wrong.
StepMetrics step_from(const nlohmann::ordered_json& record);
EpochMetrics epoch_from(const nlohmann::ordered_json& record);
Divergence divergence_from(const nlohmann::ordered_json& record);

}  // namespace adaact
