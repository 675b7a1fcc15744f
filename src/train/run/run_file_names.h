#pragma once

namespace adaact {

// Files in the folder of a run.
inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kEnvironmentFile[] = "environment.json";
inline constexpr char kMetricsFile[] = "metrics.jsonl";
inline constexpr char kTestDetailsFile[] = "test_details.json";
inline constexpr char kModelFile[] = "model.safetensors";

}  // namespace adaact
