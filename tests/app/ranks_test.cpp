// Training by several processes that mpirun starts, as users do it, and what becomes of it when one of them does not do
// what it should.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <adaact/io/safetensors.h>
#include <adaact/train/run_config.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"
#include "support/terminal.h"

namespace {

using namespace adaact::testing;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// 40 steps of a few milliseconds. A small rate, because at a large one differences by rounding grow: now and then an
/// activation near 0 falls to the other side of it.
Words training_of_ranks(const fs::path& out) {
  return {"train",     "--out",        out.string(), "--dataset",
          "synthetic", "--model",      "lenet5",     "--limit-train",
          "300",       "--limit-test", "70",         "--batch-size",
          "30",        "--epochs",     "4",          "--lr",
          "0.01",      "--threads",    "1",          "--checkpoint-every",
          "4"};
}

/// Ten times the steps, for runs that are interrupted: there is time for it on a machine that is busy. Rounding has ten
/// times as long to grow, so the rate is a tenth.
Words long_training_of_ranks(const fs::path& out) {
  return training_of_ranks(out) +
         Words{"--epochs", "40", "--lr", "0.001", "--checkpoint-every", "10"};
}

int lines_in(const std::string& text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

int times_in(const std::string& text, const std::string& part) {
  int times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// The state and what follows it in /proc/ID/stat; nothing where there is no such process.
std::istringstream status_of(pid_t id) {
  const auto text = bytes_of("/proc/" + std::to_string(id) + "/stat");
  const auto name_end = text.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : text.substr(name_end + 1));
}

/// Soon: mpirun ends when it has killed a rank, not when the system is done with it. What has ended but was not waited
/// for is gone as well.
bool is_gone(pid_t id) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string state = "X";
    status_of(id) >> state;
    if (state == "X" || state == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

/// Of the ranks that this mpirun has started here, by rank; none where one of them was not found.
std::vector<pid_t> processes_of(const Process& mpirun) {
  std::vector<pid_t> processes;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto id = std::atoi(entry.path().filename().c_str());
    if (id == 0) continue;
    std::string state;
    pid_t parent = 0;
    status_of(id) >> state >> parent;
    if (parent != mpirun.id()) continue;
    const auto environment = '\0' + bytes_of(entry.path() / "environ");
    const auto variable = std::string("\0OMPI_COMM_WORLD_RANK=", 22);
    const auto at = environment.find(variable);
    if (at == std::string::npos) continue;
    const auto rank = std::stoul(environment.substr(at + variable.size()));
    processes.resize(std::max(processes.size(), rank + 1));
    processes[rank] = id;
  }
  if (std::count(processes.begin(), processes.end(), 0) > 0) processes.clear();
  return processes;
}

double largest_difference(const fs::path& one, const fs::path& other) {
  const auto weights = adaact::TensorFile::read(one / "model.safetensors");
  const auto expected = adaact::TensorFile::read(other / "model.safetensors");
  EXPECT_EQ(weights.tensors.size(), expected.tensors.size());
  double largest = 0.0;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto difference = (weights.at(name) - tensor).abs() / (1.0 + tensor.abs());
    largest = std::max(largest, difference.max().item<double>());
  }
  return largest;
}

/// One image of a batch may fall to another class; what else was measured differs by rounding.
double tolerance_of(const std::string& name) {
  return name.find("top1") != std::string::npos || name.find("top5") != std::string::npos ? 0.034
                                                                                          : 1e-3;
}

void expect_near(const nlohmann::json& value, const nlohmann::json& expected,
                 const std::string& name) {
  if (expected.is_object()) {
    ASSERT_EQ(value.size(), expected.size()) << name;
    for (const auto& [key, part] : expected.items()) expect_near(value.at(key), part, key);
  } else if (expected.is_number_float()) {
    const auto wanted = expected.get<double>();
    EXPECT_NEAR(value.get<double>(), wanted, tolerance_of(name) * (1.0 + std::abs(wanted))) << name;
  } else {
    EXPECT_EQ(value, expected) << name;
  }
}

/// What one process computes, but for rounding.
void expect_same_training(const fs::path& run, const fs::path& reference) {
  EXPECT_LT(largest_difference(run, reference), 1e-5);
  const auto metrics = repeatable_metrics(run);
  const auto expected = repeatable_metrics(reference);
  ASSERT_EQ(metrics.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_near(metrics[i], expected[i], "line " + std::to_string(i + 1));
  }
}

class RanksOfTool : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { suite_ = new Suite; }
  static void TearDownTestSuite() {
    delete suite_;
    suite_ = nullptr;
  }
  void SetUp() override {
    if (mpirun().front().empty()) GTEST_SKIP() << "without MPI or without mpirun";
  }

  static Words mpirun() { return {ADAACT_MPIRUN}; }

  /// The command that starts the tool on so many ranks.
  static Words on(int ranks, const Words& arguments) {
    return mpirun() + Words{std::to_string(ranks)} + tool_command(arguments);
  }
  /// The command for two ranks that are not told the same.
  static Words on_two(const Words& first, const Words& second) {
    return mpirun() + Words{"1"} + tool_command(first) + Words{":", "-n", "1"} +
           tool_command(second);
  }

  fs::path at(const std::string& name) const { return folder_.at(name); }

  struct Ended {
    int code;
    double seconds;
    std::string printed;
  };
  Ended run_ranks(const Words& command) const {
    Process process(command, at("printed"));
    return end_of(process);
  }
  static Ended end_of(Process& process) {
    const auto start = Clock::now();
    const int code = process.wait();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    return {code, seconds.count(), process.printed()};
  }

  /// Waits until the run has written so many lines more than it had at first.
  static void wait_for_lines(const Process& process, const fs::path& run, int lines) {
    const auto now = [&] { return lines_in(bytes_of(run / "metrics.jsonl")); };
    const auto before = now();
    ASSERT_TRUE(wait_until(process, [&] { return now() >= before + lines; })) << process.printed();
  }

  /// A run that nothing happened to.
  struct Undisturbed {
    fs::path run;
    std::string printed;
  };
  static const Undisturbed& alone() {
    return undisturbed("alone", [](const ToolFolder& in, const fs::path& out) {
      return in.run(training_of_ranks(out));
    });
  }
  static const Undisturbed& by_two() {
    return undisturbed("by_two", [](const ToolFolder& in, const fs::path& out) {
      return in.run_command(on(2, training_of_ranks(out)));
    });
  }
  static const Undisturbed& long_alone() {
    return undisturbed("long_alone", [](const ToolFolder& in, const fs::path& out) {
      return in.run(long_training_of_ranks(out));
    });
  }
  static const Undisturbed& long_by_two() {
    return undisturbed("long_by_two", [](const ToolFolder& in, const fs::path& out) {
      return in.run_command(on(2, long_training_of_ranks(out)));
    });
  }

  /// The folder's last checkpoint was whole: the long run ends as one that nothing happened to.
  void expect_goes_on_alone(const fs::path& run) const {
    const auto resumed = folder_.run({"train", "--resume", "--quiet", "--out", run.string()});
    ASSERT_EQ(resumed.code, 0) << resumed.printed;
    expect_same_training(run, long_alone().run);
  }

  ToolFolder folder_;

 private:
  /// Trained for the first test that asks for it, and kept for the others.
  static const Undisturbed& undisturbed(
      const std::string& name,
      const std::function<Outcome(const ToolFolder& in, const fs::path& out)>& train) {
    auto& known = suite_->undisturbed[name];
    if (known.run.empty()) {
      known.run = suite_->folder.at(name);
      known.printed = train(suite_->folder, known.run).printed;
    }
    return known;
  }

  struct Suite {
    ToolFolder folder;
    std::map<std::string, Undisturbed> undisturbed;
  };
  static inline Suite* suite_ = nullptr;
};

TEST_F(RanksOfTool, TheirNumberDoesNotMatter) {
  expect_same_training(by_two().run, alone().run);
  const auto run = at("by_three");
  const auto by_three = run_ranks(on(3, training_of_ranks(run)));
  EXPECT_EQ(by_three.code, 0) << by_three.printed;
  expect_same_training(run, alone().run);
}

TEST_F(RanksOfTool, TheyAreOneProgramWithOneFolder) {
  EXPECT_EQ(names_in(by_two().run), names_in(alone().run));
  const auto& printed = by_two().printed;
  EXPECT_EQ(lines_in(printed), lines_in(alone().printed)) << printed;
  for (const auto* part : {"data       synthetic", "run        ", "epoch  train loss", "\n    4  ",
                           "the model is in"}) {
    EXPECT_EQ(times_in(printed, part), 1) << part << " in:\n" << printed;
  }
  EXPECT_EQ(times_in(printed, "\033"), 0) << "a progress bar in a file:\n" << printed;
  EXPECT_EQ(folder_.run({"report", by_two().run.string()}).code, 0);
}

TEST_F(RanksOfTool, ARunGoesOnWithAnotherNumberOfThem) {
  const auto run = at("run");
  {
    auto process = folder_.start(long_training_of_ranks(run) + Words{"--threads", "2"});
    wait_for_lines(process, run, 6);
    process.send(SIGTERM);
    EXPECT_EQ(end_of(process).code, 128 + SIGTERM) << process.printed();
  }
  // A signal to any of them interrupts all.
  const auto interrupt = [&](int ranks, std::size_t rank) {
    Process process(on(ranks, {"train", "--resume", "--out", run.string()}), at("printed"));
    wait_for_lines(process, run, 6);
    const auto processes = processes_of(process);
    ASSERT_EQ(processes.size(), static_cast<std::size_t>(ranks)) << process.printed();
    ::kill(processes[rank], SIGTERM);
    const auto ended = end_of(process);
    EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.printed;
    EXPECT_EQ(times_in(ended.printed, "resumed after step"), 1) << ended.printed;
    EXPECT_EQ(times_in(ended.printed, "interrupted; all is saved"), 1) << ended.printed;
  };
  interrupt(3, /*rank=*/0);
  const auto cores_of_each = std::max(::sysconf(_SC_NPROCESSORS_ONLN) / 3, 1L);
  EXPECT_LE(adaact::RunConfig::read(run / "config.json").threads, cores_of_each)
      << "those of one process are too many for a rank";
  interrupt(2, /*rank=*/1);
  expect_goes_on_alone(run);
}

TEST_F(RanksOfTool, ARankThatIsKilledEndsAllAndNothingIsLost) {
  const auto run = at("run");
  Process process(on(2, long_training_of_ranks(run)), at("printed"));
  wait_for_lines(process, run, 14);
  const auto processes = processes_of(process);
  ASSERT_EQ(processes.size(), 2U) << process.printed();
  ::kill(processes[1], SIGKILL);
  const auto ended = end_of(process);
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  EXPECT_TRUE(contains(ended.printed, "rank 1")) << "mpirun's line";

  const auto resumed = run_ranks(on(2, long_training_of_ranks(run) + Words{"--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.printed;
  expect_equal_runs(run, long_by_two().run);
}

TEST_F(RanksOfTool, ARankThatIsStoppedIsNamedByTheOthers) {
  const auto run = at("run");
  Process process(on(2, long_training_of_ranks(run) + Words{"--rank-timeout", "2"}), at("printed"));
  wait_for_lines(process, run, 14);
  const auto processes = processes_of(process);
  ASSERT_EQ(processes.size(), 2U) << process.printed();
  ::kill(processes[0], SIGSTOP);
  const auto ended = end_of(process);
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  EXPECT_TRUE(contains(ended.printed, "did not answer for 2 s"));
  EXPECT_EQ(times_in(ended.printed, "adaact: rank "), 1) << ended.printed;
  EXPECT_EQ(times_in(ended.printed, "adaact: rank 1 ("), 1) << ended.printed;
  EXPECT_EQ(times_in(ended.printed, "): rank 0 ("), 1) << ended.printed;
  EXPECT_TRUE(is_gone(processes[0]));
  expect_goes_on_alone(run);
}

TEST_F(RanksOfTool, CtrlCEndsAllAndTheyGoOnAsTheyWould) {
  const auto run = at("run");
  Process process(on(2, long_training_of_ranks(run)), at("printed"));
  wait_for_lines(process, run, 14);
  const auto processes = processes_of(process);
  ASSERT_EQ(processes.size(), 2U) << process.printed();
  process.send(SIGINT);
  const auto ended = end_of(process);
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 15);
  EXPECT_LE(times_in(ended.printed, "and saving"), 1) << ended.printed;
  for (const auto id : processes) EXPECT_TRUE(is_gone(id));

  // Only the first need see the folder.
  const auto elsewhere = at("elsewhere");
  const auto resumed = run_ranks(on_two({"train", "--resume", "--out", run.string()},
                                        {"train", "--resume", "--out", elsewhere.string()}));
  EXPECT_EQ(resumed.code, 0) << resumed.printed;
  EXPECT_FALSE(fs::exists(elsewhere));
  expect_equal_runs(run, long_by_two().run);
}

TEST_F(RanksOfTool, OtherOptionsAreToldApartBeforeTheFirstStep) {
  const auto run = at("run");
  const auto ended = run_ranks(on_two(training_of_ranks(run) + Words{"--lr", "0.1"},
                                      training_of_ranks(run) + Words{"--lr", "0.2"}));
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed, "rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, "differs in its options: it has lr 0.2, expected lr 0.1"));
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(RanksOfTool, OtherSettingsAreToldApartBeforeTheFirstStep) {
  const auto run = at("run");
  const auto train = training_of_ranks(run);
  const auto ended = run_ranks(on_two(train + Words{"--save-best"}, train));
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed,
                       "differs in its options: it has save_best false, expected save_best true"))
      << ended.printed;
  const auto one_resumes = run_ranks(on_two(train + Words{"--resume"}, train));
  EXPECT_NE(one_resumes.code, 0);
  EXPECT_TRUE(contains(one_resumes.printed, "it has no --resume, expected --resume"))
      << one_resumes.printed;
  EXPECT_FALSE(fs::exists(run));
}

/// Where a program has the identity of its build, from what comes before it: the note's name and text have so many bytes,
/// the note is of this kind, and GNU is its name.
std::size_t place_of_build_id(const std::string& program) {
  const std::string before("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const auto found = program.find(before);
  return found == std::string::npos ? found : found + before.size();
}

TEST_F(RanksOfTool, AnotherBuildOfTheSameVersionIsToldApartBeforeTheFirstStep) {
  const auto run = at("run");
  auto program = bytes_of(ADAACT_TOOL);
  const auto place = place_of_build_id(program);
  if (place == std::string::npos) GTEST_SKIP() << "the linker has given this build no identity";
  program[place] = static_cast<char>(program[place] ^ 1);
  const auto other = at("other_build");
  std::ofstream(other, std::ios::binary) << program;
  fs::permissions(other, fs::perms::owner_all);

  auto command = on_two(training_of_ranks(run), training_of_ranks(run));
  *std::find(command.rbegin(), command.rend(), std::string(ADAACT_TOOL)) = other.string();
  const auto ended = run_ranks(command);
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed, "rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, "differs in its program: it has build ")) << ended.printed;
  EXPECT_FALSE(fs::exists(run));
}

/// The largest address space, in kilobytes, that a process has had.
std::int64_t most_kilobytes_of(pid_t id) {
  const auto status = bytes_of("/proc/" + std::to_string(id) + "/status");
  const std::string name = "VmPeak:";
  const auto at = status.find(name);
  return at == std::string::npos ? 0 : std::stoll(status.substr(at + name.size()));
}

TEST_F(RanksOfTool, ARankThatRunsOutOfMemoryEndsAllAndSaysSo) {
  const auto training = [this](const std::string& name, const std::string& image_size) {
    return training_of_ranks(at(name)) +
           Words{"--model", "mlp", "--image-size", image_size, "--epochs", "1000"};
  };
  std::int64_t needed_for_small_images = 0;
  {
    Process process(on(2, training("small", "28")), at("printed_small"));
    wait_for_lines(process, at("small"), 6);
    const auto processes = processes_of(process);
    ASSERT_EQ(processes.size(), 2U) << process.printed();
    needed_for_small_images = most_kilobytes_of(processes[1]);
  }
  ASSERT_GT(needed_for_small_images, 0);

  // 123 MB of weights, the same of gradients and of the optimizer's state, twice and more of each on their way.
  const auto limit = std::to_string(needed_for_small_images + 300000);
  const auto large = training("large", "200");
  const auto command = mpirun() + Words{"1"} + tool_command(large) + Words{":", "-n", "1", "sh"} +
                       Words{"-c", "ulimit -v " + limit + " && exec \"$0\" \"$@\""} +
                       tool_command(large);
  const auto ended = run_ranks(command);
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 30);
  EXPECT_EQ(times_in(ended.printed, "adaact: rank "), 1) << ended.printed;
  const std::regex line("rank 1 \\([^()]+\\): [^\n]*(can't allocate memory|std::bad_alloc)");
  EXPECT_TRUE(std::regex_search(ended.printed, line)) << ended.printed;
}

TEST_F(RanksOfTool, OneBarIsShownOnATerminal) {
  Terminal terminal(on(2, training_of_ranks(at("run")) + Words{"--epochs", "1"}));
  EXPECT_EQ(terminal.wait(), 0) << terminal.shown();
  // Whoever draws a bar draws it after the first of the ten steps, and only once.
  EXPECT_EQ(times_in(terminal.shown(), " 10 %  loss "), 1) << terminal.shown();
  EXPECT_EQ(times_in(terminal.shown(), "epoch  train loss"), 1) << terminal.shown();
  EXPECT_EQ(times_in(terminal.shown(), "the model is in"), 1) << terminal.shown();
}

class RanksWithImages : public RanksOfTool {
 protected:
  /// Two classes of so many images.
  fs::path images(const std::string& name, int count, std::uint8_t brightness = 200) const {
    for (int i = 0; i < count; ++i) {
      const auto shade = static_cast<std::uint8_t>(10 * i);
      add_image(name, "red", i, {brightness, shade, shade});
      add_image(name, "blue", i, {shade, shade, brightness});
    }
    return at(name);
  }

  void add_image(const std::string& name, const std::string& of_class, int number,
                 const std::vector<std::uint8_t>& colour) const {
    for (const std::string split : {"train", "val"}) {
      write_jpeg(at(name) / split / of_class / (std::to_string(number) + ".jpg"),
                 plain_image(20, 20, colour));
    }
  }

  /// Trains on two ranks with a folder of images for each.
  Ended train(const fs::path& of_first, const fs::path& of_second) const {
    const auto command = [&](const fs::path& images) {
      return Words{"train",
                   "--out",
                   at("run").string(),
                   "--data-dir",
                   images.string(),
                   "--model",
                   "lenet5",
                   "--image-size",
                   "32",
                   "--epochs",
                   "1",
                   "--batch-size",
                   "4",
                   "--threads",
                   "1"};
    };
    return run_ranks(on_two(command(of_first), command(of_second)));
  }
};

TEST_F(RanksWithImages, OtherDataAreToldApartBeforeTheFirstStep) {
  const auto ended = train(images("all", 4), images("fewer", 3));
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed, "rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, "differs in its data: it has train 6 images of 2 classes"));
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RanksWithImages, OtherNumbersOfClassesAreToldApartBeforeTheFirstStep) {
  const auto two = images("two", 3);
  const auto three = images("three", 2);
  for (const int i : {0, 1}) add_image("three", "green", i, {0, 200, 0});
  const auto ended = train(two, three);
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed, "rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, "differs in its data: it has train 6 images of 3 classes"))
      << ended.printed;
  EXPECT_TRUE(contains(ended.printed, "expected train 6 images of 2 classes")) << ended.printed;
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RanksWithImages, OtherPicturesUnderTheSameNamesAreToldApartBeforeTheFirstStep) {
  const auto ended = train(images("light", 4), images("dark", 4, /*brightness=*/100));
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(contains(ended.printed, "rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, "differs in the pixels of its data: it has train 8 images"))
      << ended.printed;
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RanksWithImages, AnErrorOfOneEndsAll) {
  const auto broken = images("broken", 4);
  // Every image of a class, because which of them are this rank's is chance.
  for (const auto& entry : fs::directory_iterator(broken / "train" / "red")) {
    fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
  }
  const auto ended = train(images("whole", 4), broken);
  EXPECT_NE(ended.code, 0);
  EXPECT_LT(ended.seconds, 20);
  EXPECT_TRUE(contains(ended.printed, "adaact: rank 1 ("));
  EXPECT_TRUE(contains(ended.printed, (broken / "train" / "red").string()));
  EXPECT_EQ(times_in(ended.printed, "adaact: rank "), 1) << ended.printed;
}

TEST_F(RanksOfTool, WhatIsForOneProcessIsRefused) {
  const auto report = run_ranks(on(2, {"report", "nowhere"}));
  EXPECT_NE(report.code, 0);
  EXPECT_EQ(times_in(report.printed, "report was started as 2 ranks, expected one process"), 1)
      << report.printed;
  EXPECT_EQ(times_in(report.printed, "adaact: rank 0 ("), 1) << report.printed;

  const auto seeds = run_ranks(on(2, training_of_ranks(at("run")) + Words{"--seeds", "0,1"}));
  EXPECT_EQ(seeds.code, 2);
  EXPECT_EQ(times_in(seeds.printed, "--seeds are given, but there are 2 ranks"), 1)
      << seeds.printed;
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RanksOfTool, TheTimeToWaitForThemIsChecked) {
  for (const auto* seconds : {"0", "nan", "1e300"}) {
    const auto ended = folder_.run(training_of_ranks(at("run")) + Words{"--rank-timeout", seconds});
    EXPECT_EQ(ended.code, 2) << ended.printed;
    EXPECT_TRUE(contains(ended.printed, "--rank-timeout is ")) << seconds;
  }
  const auto ended =
      folder_.run({"train", "--resume", "--rank-timeout", "5", "--out", at("run").string()});
  EXPECT_EQ(ended.code, 2) << "it does not say what to train";
  EXPECT_FALSE(fs::exists(at("run")));
}

TEST_F(RanksOfTool, BatchNormalisationOverAllOfThemIsThatOfOneProcess) {
  // A small rate, as in training_of_ranks(). With each rank's own statistics the difference is 0.04.
  const auto command = [](const fs::path& out) {
    return Words{"train",
                 "--out",
                 out.string(),
                 "--dataset",
                 "synthetic",
                 "--model",
                 "resnet20",
                 "--limit-train",
                 "24",
                 "--limit-test",
                 "8",
                 "--batch-size",
                 "8",
                 "--epochs",
                 "1",
                 "--lr",
                 "0.001",
                 "--threads",
                 "1",
                 "--quiet",
                 "--sync-batchnorm"};
  };
  const auto one = folder_.run(command(at("one")));
  ASSERT_EQ(one.code, 0) << one.printed;
  const auto two = run_ranks(on(2, command(at("two"))));
  ASSERT_EQ(two.code, 0) << two.printed;
  EXPECT_LT(largest_difference(at("two"), at("one")), 1e-4);
}

}  // namespace
