// Kills training with SIGKILL again and again and compares what finally comes out with a run that was
// left in peace.

#include <poll.h>
#include <sys/inotify.h>

#include <random>

#include <gtest/gtest.h>

#include "app/tool.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::expect_equal_runs;
using adaact::testing::Process;
using adaact::testing::short_training;
using adaact::testing::ToolFolder;
using adaact::testing::wait_until;
using adaact::testing::Words;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class KillTest : public ::testing::Test {
 protected:
  Words training(const fs::path& out) const {
    auto command = short_training(out);
    command.insert(command.end(), {"--checkpoint-every", checkpoint_every_, "--resume"});
    return command;
  }

  void train_to_the_end(const fs::path& out) {
    const auto [code, printed] = folder_.run(training(out));
    EXPECT_EQ(code, 0) << printed;
  }

  static bool has_unfinished_file(const fs::path& run) {
    for (const auto& entry : fs::directory_iterator(run)) {
      if (entry.path().filename().string().find(".tmp") != std::string::npos) return true;
    }
    return false;
  }

  ToolFolder folder_;
  std::string checkpoint_every_ = "3";
  std::mt19937 random_{20261115};
};

/// Hears of files that are begun in a folder.
class NewFiles {
 public:
  explicit NewFiles(const fs::path& folder)
      : descriptor_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    ::inotify_add_watch(descriptor_, folder.c_str(), IN_CREATE);
  }
  ~NewFiles() { ::close(descriptor_); }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  /// Waits for the next checkpoint that is begun; false where the process ends first.
  bool wait_for_checkpoint(const Process& process) {
    while (true) {
      pollfd waiting{descriptor_, POLLIN, 0};
      const bool ended = process.has_ended();
      if (::poll(&waiting, 1, /*milliseconds=*/20) == 0) {
        if (ended) return false;
        continue;
      }
      alignas(inotify_event) char buffer[4096];
      const auto bytes = ::read(descriptor_, buffer, sizeof(buffer));
      for (const char* at = buffer; at < buffer + bytes;) {
        const auto* event = reinterpret_cast<const inotify_event*>(at);
        at += sizeof(inotify_event) + event->len;
        if (std::string(event->name).find("checkpoint.") == 0) return true;
      }
    }
  }

 private:
  int descriptor_;
};

TEST_F(KillTest, AtRandomSteps) {
  train_to_the_end(folder_.at("whole"));
  const auto run = folder_.at("killed");
  const auto lines_of = [&] {
    const auto text = bytes_of(run / "metrics.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  };
  int kills = 0;
  // Sixty steps and three epochs make 63 lines.
  for (int line = 1; line < 63; line += std::uniform_int_distribution<>(2, 5)(random_)) {
    auto process = folder_.start(training(run));
    wait_until(process, [&] { return lines_of() >= line; });
    process.send(SIGKILL);
    if (process.wait() == -SIGKILL) ++kills;
  }
  EXPECT_GE(kills, 12);
  train_to_the_end(run);
  expect_equal_runs(run, folder_.at("whole"));
}

TEST_F(KillTest, InsideTheWritingOfACheckpoint) {
  checkpoint_every_ = "1";
  train_to_the_end(folder_.at("whole"));
  const auto run = folder_.at("killed");
  fs::create_directories(run);
  int kills = 0;
  int halves = 0;
  // Of sixty checkpoints a try finishes two at most, or three where this process has to wait: the
  // training does not come to its end before all are made.
  for (int i = 0; i < 24; ++i) {
    NewFiles new_files(run);
    auto process = folder_.start(training(run));
    const auto written_before = std::uniform_int_distribution<>(0, 1)(random_);
    for (int n = 0; n < written_before; ++n) new_files.wait_for_checkpoint(process);
    if (new_files.wait_for_checkpoint(process)) {
      const std::chrono::microseconds delay(std::uniform_int_distribution<>(0, 1000)(random_));
      for (const auto until = Clock::now() + delay; Clock::now() < until;) {
      }
    }
    process.send(SIGKILL);
    if (process.wait() != -SIGKILL) break;
    ++kills;
    if (has_unfinished_file(run)) ++halves;
  }
  RecordProperty("kills", kills);
  RecordProperty("halves", halves);
  EXPECT_GE(kills, 18);
  EXPECT_GE(halves, 3) << "of " << kills << " kills were inside the writing";
  train_to_the_end(run);
  EXPECT_FALSE(has_unfinished_file(run));
  expect_equal_runs(run, folder_.at("whole"));
}

TEST_F(KillTest, WhileItStarts) {
  const auto run = folder_.at("killed");
  for (int i = 0; i < 8; ++i) {
    auto process = folder_.start(training(run));
    // The folder is new or left by the run that was killed before; in either case the kill comes
    // right after it is there, or a little later.
    wait_until(process, [&] { return fs::exists(run); });
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<>(0, 1500)(random_)));
    process.send(SIGKILL);
    EXPECT_EQ(process.wait(), -SIGKILL);
    if (i % 2 == 0) fs::remove_all(run);
  }
  train_to_the_end(run);
  train_to_the_end(folder_.at("whole"));
  expect_equal_runs(run, folder_.at("whole"));
}

}  // namespace
