#include "progress.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "report/format.h"
#include "signal_answer.h"
#include "status_line.h"
#include "tool_ranks.h"

namespace adaact::app {
namespace {

using Clock = std::chrono::steady_clock;

// Each line is one call of printf, so that those of several threads do not mix.

void print_heading(const char* before) {
  std::printf(
      "%sepoch  train loss  train top-1  test loss  test top-1  test top-5  seconds  images/s\n",
      before);
  std::fflush(stdout);
}

void print_resumed(const Trainer& trainer, const char* before) {
  if (trainer.state().step == 0) return;
  std::printf("%sresumed after step %ld of %ld\n", before, trainer.state().step, trainer.steps());
  std::fflush(stdout);
}

void print_epoch(const EpochMetrics& metrics, const char* before) {
  std::printf("%s%5ld  %10.4f  %9.2f %%  %9.4f  %8.2f %%  %8.2f %%  %7.1f  %8.0f\n", before,
              metrics.epoch + 1, metrics.train_loss, 100.0 * metrics.train_top1, metrics.test.loss,
              100.0 * metrics.test.top1, 100.0 * metrics.test.top5, metrics.seconds,
              metrics.images_per_second);
  std::fflush(stdout);
}

/// How long a training will still take, from how long it has taken.
class TimeLeft {
 public:
  void start(const Trainer& trainer) {
    start_ = Clock::now();
    first_step_ = trainer.state().step;
  }
  std::int64_t steps_taken(const Trainer& trainer) const {
    return trainer.state().step - first_step_;
  }
  double seconds(const Trainer& trainer) const {
    const auto elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    return elapsed / static_cast<double>(steps_taken(trainer)) *
           static_cast<double>(trainer.steps() - trainer.state().step);
  }

 private:
  Clock::time_point start_;
  std::int64_t first_step_ = 0;
};

/// Says once about how long a training will take, where that is worth a line.
class TimeLine {
 public:
  void start(const Trainer& trainer) { left_.start(trainer); }
  void on_step(const Trainer& trainer, const char* before) {
    constexpr std::int64_t kStepsThatTell = 20;
    if (!said_ && left_.steps_taken(trainer) >= kStepsThatTell) say(trainer, before);
  }
  void on_epoch(const Trainer& trainer, const char* before) {
    if (!said_ && left_.steps_taken(trainer) > 0) say(trainer, before);
  }

 private:
  void say(const Trainer& trainer, const char* before) {
    constexpr double kShort = 30.0;
    said_ = true;
    const auto seconds = left_.seconds(trainer);
    if (seconds < kShort) return;
    std::printf("%sabout %s left\n", before, duration(seconds).c_str());
    std::fflush(stdout);
  }

  TimeLeft left_;
  bool said_ = false;
};

/// Prints nothing; knows what to answer to a signal.
class StepNotes : public TrainingCallback {
 public:
  ~StepNotes() override { note_other_work(); }
  void on_start(const Trainer& trainer) override {
    note_step_being_taken(trainer.state().step + 1);
  }
  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    const bool last_of_epoch = metrics.step % trainer.steps_per_epoch() == 0;
    last_of_epoch ? note_evaluation() : note_step_being_taken(metrics.step + 1);
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    note_step_being_taken(metrics.step + 1);
  }
};

/// Prints a heading and a line for each epoch.
class EpochLines : public StepNotes {
 public:
  explicit EpochLines(Introduction introduction) : introduction_(std::move(introduction)) {}

  void on_start(const Trainer& trainer) override {
    StepNotes::on_start(trainer);
    introduction_(trainer);
    print_resumed(trainer, "");
    print_heading("");
  }
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    StepNotes::on_epoch(trainer, metrics);
    print_epoch(metrics, "");
  }

 private:
  Introduction introduction_;
};

/// For a pipe or a file: with a line that says how long it will take.
class TimedEpochLines : public EpochLines {
 public:
  using EpochLines::EpochLines;

  void on_start(const Trainer& trainer) override {
    EpochLines::on_start(trainer);
    time_.start(trainer);
  }
  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    EpochLines::on_step(trainer, metrics);
    time_.on_step(trainer, "");
  }
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    EpochLines::on_epoch(trainer, metrics);
    time_.on_epoch(trainer, "");
  }

 private:
  TimeLine time_;
};

/// What the lines of several seeds have in common.
struct SeedsHeading {
  Introduction introduction;
  std::once_flag printed;
};

/// Prints a line for each epoch of one seed among several.
class SeedLines : public TrainingCallback {
 public:
  SeedLines(std::uint64_t seed, std::shared_ptr<SeedsHeading> heading)
      : heading_(std::move(heading)) {
    char text[32];
    std::snprintf(text, sizeof(text), "%4lu  ", seed);
    seed_ = text;
  }
  void on_start(const Trainer& trainer) override {
    std::call_once(heading_->printed, [&] {
      heading_->introduction(trainer);
      print_heading("seed  ");
    });
    print_resumed(trainer, seed_.c_str());
    time_.start(trainer);
  }
  void on_step(const Trainer& trainer, const StepMetrics& /*metrics*/) override {
    time_.on_step(trainer, seed_.c_str());
  }
  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    print_epoch(metrics, seed_.c_str());
    time_.on_epoch(trainer, seed_.c_str());
  }

 private:
  std::shared_ptr<SeedsHeading> heading_;
  std::string seed_;
  TimeLine time_;
};

/// Prints a line for each epoch and, below these, how far the current one is.
class ProgressBar : public EpochLines {
 public:
  using EpochLines::EpochLines;
  ~ProgressBar() override { clear_status_line(); }

  void on_start(const Trainer& trainer) override {
    EpochLines::on_start(trainer);
    time_.start(trainer);
  }

  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    EpochLines::on_step(trainer, metrics);
    const auto now = Clock::now();
    const bool due = now - drawn_ >= std::chrono::milliseconds(100);
    if (!due) return;
    drawn_ = now;
    draw(trainer, metrics);
  }

  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    clear_status_line();
    EpochLines::on_epoch(trainer, metrics);
  }

 private:
  void draw(const Trainer& trainer, const StepMetrics& metrics) const {
    const auto& state = trainer.state();
    const auto per_epoch = trainer.steps_per_epoch();
    const auto in_epoch = metrics.step - metrics.epoch * per_epoch;
    const auto images = static_cast<double>(state.images);
    char numbers[120];
    std::snprintf(numbers, sizeof(numbers),
                  " %3ld %%  loss %.4f  top-1 %.2f %%  %.0f images/s  %s left",
                  100 * in_epoch / per_epoch, state.loss_sum / images,
                  100.0 * static_cast<double>(state.correct) / images, images / state.epoch_seconds,
                  duration(time_.seconds(trainer)).c_str());
    const std::string head = "epoch " + std::to_string(metrics.epoch + 1) + "/" +
                             std::to_string(trainer.steps() / per_epoch) + " ";
    const auto room =
        terminal_width() - static_cast<long>(head.size() + std::string(numbers).size()) - 3;
    std::string bar;
    if (room >= 5) {
      const auto length = std::min<long>(room, 30);
      const auto done = static_cast<std::size_t>(length * in_epoch / per_epoch);
      bar = "[" + std::string(done, '=') +
            std::string(static_cast<std::size_t>(length) - done, ' ') + "]";
    }
    draw_status_line(
        (head + bar + numbers).substr(0, static_cast<std::size_t>(terminal_width() - 1)));
  }

  static long terminal_width() {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
  }

  TimeLeft time_;
  Clock::time_point drawn_{};
};

}  // namespace

std::unique_ptr<TrainingCallback> make_progress(Verbosity verbosity,
                                                const Introduction& introduction) {
  if (verbosity != Verbosity::Normal) return std::make_unique<StepNotes>();
  if (prints_to_terminal()) return std::make_unique<ProgressBar>(introduction);
  return std::make_unique<TimedEpochLines>(introduction);
}

std::function<std::unique_ptr<TrainingCallback>(std::uint64_t seed)> make_progress_of_seeds(
    Verbosity verbosity, const Introduction& introduction) {
  if (verbosity != Verbosity::Normal) {
    return [](std::uint64_t /*seed*/) { return std::make_unique<TrainingCallback>(); };
  }
  const auto heading = std::make_shared<SeedsHeading>();
  heading->introduction = introduction;
  return [heading](std::uint64_t seed) { return std::make_unique<SeedLines>(seed, heading); };
}

}  // namespace adaact::app
