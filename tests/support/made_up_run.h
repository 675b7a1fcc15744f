#pragma once

// A run's folder as training would leave it, without training.

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <adaact/train/run_config.h>
#include <nlohmann/json.hpp>

namespace adaact::testing {

/// The fields that a run in a folder has always settled.
inline RunConfig made_up_config() {
  RunConfig config;
  config.model = "lenet5";
  config.dataset = "fashion-mnist";
  config.flip = "on";
  config.epochs = 3;
  config.batch_size = 128;
  return config;
}

struct MadeUpRun {
  RunConfig config = made_up_config();
  int epochs = 3;
  int steps_per_epoch = 10;
  int further_steps = 0;  // of an epoch that is not finished
  bool finished = true;
  bool diverged = false;             // in the step after those
  double top1_of_last_epoch = 0.75;  // of those before it a little less
  std::vector<std::string> layers{"conv1.weight", "conv2.weight", "fc.weight"};
};

inline nlohmann::ordered_json made_up_step(int step, int epoch) {
  return {{"kind", "step"},          {"step", step},    {"epoch", epoch},
          {"loss", 2.0 / step},      {"top1", 0.5},     {"learning_rate", 0.1},
          {"gradient_norm", 1.0},    {"seconds", 0.25}, {"wait_seconds", 0.25},
          {"images_per_second", 256}};
}

inline nlohmann::ordered_json made_up_epoch(const MadeUpRun& run, int epoch) {
  auto moments = nlohmann::ordered_json::object();
  for (const auto& layer : run.layers) {
    moments[layer] = std::exp(0.3 * epoch - static_cast<double>(moments.size()));
  }
  const int step = (epoch + 1) * run.steps_per_epoch;
  return {{"kind", "epoch"},
          {"step", step},
          {"epoch", epoch},
          {"train_loss", 1.0},
          {"train_top1", 0.5},
          {"test_loss", 0.5},
          {"test_top1", run.top1_of_last_epoch - 0.1 * (run.epochs - 1 - epoch)},
          {"test_top5", 0.9},
          {"seconds", 0.5 * step},
          {"images_per_second", 1234.5},
          {"second_moments", moments}};
}

inline nlohmann::ordered_json made_up_divergence(int step, int epoch) {
  return {{"kind", "diverged"},
          {"step", step},
          {"epoch", epoch},
          {"message", "SGD: the gradient of 'conv1.weight' is not finite"}};
}

/// A safetensors header and no data: three parameters of 24 numbers, and a buffer.
inline std::string made_up_weights() {
  const nlohmann::json header{{"__metadata__", {{"model", "lenet5"}}},
                              {"conv.weight", {{"dtype", "F32"}, {"shape", {2, 3, 2}}}},
                              {"norm.running_mean", {{"dtype", "F32"}, {"shape", {7}}}},
                              {"fc.weight", {{"dtype", "F32"}, {"shape", {5, 2}}}},
                              {"fc.bias", {{"dtype", "F32"}, {"shape", {2}}}}};
  const auto text = header.dump();
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

inline void write_run(const std::filesystem::path& folder, const MadeUpRun& run) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << run.config.to_json();
  std::ofstream metrics(folder / "metrics.jsonl");
  int step = 0;
  for (int epoch = 0; epoch < run.epochs; ++epoch) {
    while (step < (epoch + 1) * run.steps_per_epoch) metrics << made_up_step(++step, epoch) << "\n";
    metrics << made_up_epoch(run, epoch) << "\n";
  }
  for (int further = 0; further < run.further_steps; ++further) {
    metrics << made_up_step(++step, run.epochs) << "\n";
  }
  if (run.diverged) metrics << made_up_divergence(step + 1, run.epochs) << "\n";
  if (run.finished) std::ofstream(folder / "model.safetensors") << made_up_weights();
}

/// A run that diverged after so many epochs; it has no model.
inline MadeUpRun diverged_run(const RunConfig& config, int epochs) {
  MadeUpRun run;
  run.config = config;
  run.epochs = epochs;
  run.further_steps = 4;
  run.finished = false;
  run.diverged = true;
  return run;
}

inline MadeUpRun run_with(const std::string& optimizer, const std::string& options) {
  MadeUpRun run;
  run.config.optimizer = optimizer;
  run.config.optimizer_options = options;
  return run;
}

}  // namespace adaact::testing
