#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <adaact/train/training_run.h>

namespace adaact {

/// The same training run from several seeds, each in a folder of its own:
///
///   SeedRuns runs(config, {0, 1, 2}, "runs/resnet20", settings);
///   runs.run([](std::uint64_t seed) { return std::make_unique<MyCallback>(seed); });
///
/// On a GPU they train at once, up to 16 on a thread and a stream each, because one small model leaves
/// most of it idle; elsewhere one after the other. Each computes what it would compute alone: to the bit
/// on the CPU and with RunConfig::deterministic.
class SeedRuns {
 public:
  /// `config.seed` is not used.
  SeedRuns(const RunConfig& config, std::vector<std::uint64_t> seeds, std::filesystem::path folder,
           const RunSettings& settings = {});

  /// What became of the run of one seed.
  struct Outcome {
    std::uint64_t seed = 0;
    RunResult result;
    std::exception_ptr error;  // or null
  };

  using MakeCallback = std::function<std::unique_ptr<TrainingCallback>(std::uint64_t seed)>;

  /// Trains all seeds. An error of one does not end the others. Callbacks of different seeds may be
  /// called at once.
  std::vector<Outcome> run(const MakeCallback& make_callback);

  /// Why the seeds train one after the other; empty where they train at once.
  std::string obstacle_to_concurrency() const;

  std::filesystem::path folder_of(std::uint64_t seed) const;

 private:
  Outcome run_one(std::uint64_t seed, TrainingCallback& callback) const;

  RunConfig config_;
  std::vector<std::uint64_t> seeds_;
  std::filesystem::path folder_;
  RunSettings settings_;
};

}  // namespace adaact
