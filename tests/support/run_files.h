#pragma once

// What a training run leaves in its folder.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace adaact::testing {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// What must repeat: everything but times.
inline std::vector<nlohmann::json> repeatable_metrics(const std::filesystem::path& run) {
  auto lines = metrics_of(run);
  for (auto& line : lines) {
    for (const char* timed : {"seconds", "wait_seconds", "images_per_second"}) line.erase(timed);
  }
  return lines;
}

}  // namespace adaact::testing
