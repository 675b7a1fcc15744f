#pragma once

namespace adaact {

// Files in the folder of a run.
inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kEnvironmentFile[] = "environment.json";
inline constexpr char kMetricsFile[] = "metrics.jsonl";
inline constexpr char kTestDetailsFile[] = "test_details.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kBestFile[] = "best.safetensors";

/// The field of config.json that says how a run is carried out; the others say what it computes.
inline constexpr char kSettingsField[] = "settings";

}  // namespace adaact
