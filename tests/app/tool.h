#pragma once

#include <string>
#include <vector>

#include "support/process.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace adaact::testing {

using Words = std::vector<std::string>;

/// The tool's command line.
inline Words tool_command(const Words& arguments) {
  Words command{ADAACT_TOOL};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

struct Outcome {
  int code = 0;  // minus the signal that ended it
  std::string printed;
};

/// A folder in which the tool runs.
class ToolFolder {
 public:
  std::filesystem::path at(const std::string& name) const { return folder_.path() / name; }

  Process start(const Words& arguments) const {
    return Process(tool_command(arguments), at("printed"));
  }

  Outcome run(const Words& arguments) const { return run_command(tool_command(arguments)); }

  Outcome run_command(const Words& command) const {
    Process process(command, at("printed"));
    const int code = process.wait();
    return {code, process.printed()};
  }

 private:
  TemporaryFolder folder_;
};

/// A short training on made-up images: 60 steps of a few milliseconds.
inline Words short_training(const std::filesystem::path& out) {
  return {"train",  "--out",         out.string(), "--dataset",    "synthetic", "--model",
          "lenet5", "--limit-train", "156",        "--limit-test", "40",        "--batch-size",
          "8",      "--epochs",      "3",          "--threads",    "1"};
}

/// Expects the same weights, the same details of the test, the same metrics, and an event file with as many records.
inline void expect_equal_runs(const std::filesystem::path& run,
                              const std::filesystem::path& reference) {
  EXPECT_EQ(bytes_of(run / "model.safetensors"), bytes_of(reference / "model.safetensors"));
  EXPECT_EQ(bytes_of(run / "test_details.json"), bytes_of(reference / "test_details.json"));
  EXPECT_EQ(repeatable_metrics(run), repeatable_metrics(reference));
  const std::string events = "events.out.tfevents.0.adaact";
  EXPECT_EQ(std::filesystem::file_size(run / events),
            std::filesystem::file_size(reference / events));
}

}  // namespace adaact::testing
