#pragma once

#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "app/run_tool.h"
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
  ToolFolder() { threads_of_tool(); }

  std::filesystem::path at(const std::string& name) const { return folder_.path() / name; }

  /// In a child of this process, which has loaded LibTorch already: that takes longer than most commands.
  Process start(const Words& arguments) const {
    const auto command = tool_command(arguments);
    if (!has_one_thread()) return Process(command, at("printed"));
    return Process([&] { return run_in_this_process(command); }, at("printed"));
  }

  Outcome run(const Words& arguments) const {
    auto process = start(arguments);
    return outcome_of(process);
  }

  Outcome run_command(const Words& command) const {
    Process process(command, at("printed"));
    return outcome_of(process);
  }

 private:
  static int run_in_this_process(Words command) {
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    at::set_num_threads(threads_of_tool());
    app::run_tool(static_cast<int>(command.size()), arguments.data());
  }

  /// As many as it has by itself. This process stays with one: of others a child would have none.
  static int threads_of_tool() {
    static const int threads = [] {
      const auto by_default = at::get_num_threads();
      at::set_num_threads(1);
      return by_default;
    }();
    return threads;
  }

  static Outcome outcome_of(Process& process) {
    const int code = process.wait();
    return {code, process.printed()};
  }

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
