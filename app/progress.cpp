#include "progress.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

#include "report/format.h"

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

/// Prints a heading and a line for each epoch.
class EpochLines : public TrainingCallback {
 public:
  void on_start(const Trainer& trainer) override {
    print_resumed(trainer, "");
    print_heading("");
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    print_epoch(metrics, "");
  }
};

/// Prints a line for each epoch of one seed among several.
class SeedLines : public TrainingCallback {
 public:
  explicit SeedLines(std::uint64_t seed) {
    char text[32];
    std::snprintf(text, sizeof(text), "%4lu  ", seed);
    seed_ = text;
  }
  void on_start(const Trainer& trainer) override { print_resumed(trainer, seed_.c_str()); }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    print_epoch(metrics, seed_.c_str());
  }

 private:
  std::string seed_;
};

/// Prints a line for each epoch and, below these, how far the current one is.
class ProgressBar : public EpochLines {
 public:
  ~ProgressBar() override { clear(); }

  void on_start(const Trainer& trainer) override {
    EpochLines::on_start(trainer);
    start_ = Clock::now();
    first_step_ = trainer.state().step;
  }

  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    const auto now = Clock::now();
    const bool due = now - drawn_ >= std::chrono::milliseconds(100);
    if (!due) return;
    drawn_ = now;
    draw(trainer, metrics);
  }

  void on_epoch(const Trainer& trainer, const EpochMetrics& metrics) override {
    clear();
    EpochLines::on_epoch(trainer, metrics);
  }

 private:
  void draw(const Trainer& trainer, const StepMetrics& metrics) {
    const auto& state = trainer.state();
    const auto per_epoch = trainer.steps_per_epoch();
    const auto in_epoch = metrics.step - metrics.epoch * per_epoch;
    const auto images = static_cast<double>(state.images);
    const auto elapsed = std::chrono::duration<double>(drawn_ - start_).count();
    const auto left = elapsed / static_cast<double>(metrics.step - first_step_) *
                      static_cast<double>(trainer.steps() - metrics.step);
    char numbers[120];
    std::snprintf(numbers, sizeof(numbers),
                  " %3ld %%  loss %.4f  top-1 %.2f %%  %.0f images/s  %s left",
                  100 * in_epoch / per_epoch, state.loss_sum / images,
                  100.0 * static_cast<double>(state.correct) / images, images / state.epoch_seconds,
                  duration(left).c_str());
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
    const auto line =
        (head + bar + numbers).substr(0, static_cast<std::size_t>(terminal_width() - 1));
    std::printf("\r\033[K%s", line.c_str());
    std::fflush(stdout);
    visible_ = true;
  }

  void clear() {
    if (!visible_) return;
    std::printf("\r\033[K");
    std::fflush(stdout);
    visible_ = false;
  }

  static long terminal_width() {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
  }

  Clock::time_point start_;
  Clock::time_point drawn_{};
  std::int64_t first_step_ = 0;
  bool visible_ = false;
};

}  // namespace

std::unique_ptr<TrainingCallback> make_progress(Verbosity verbosity) {
  if (verbosity != Verbosity::Normal) return std::make_unique<TrainingCallback>();
  if (::isatty(STDOUT_FILENO) != 0) return std::make_unique<ProgressBar>();
  return std::make_unique<EpochLines>();
}

void print_heading_of_seeds() { print_heading("seed  "); }

std::unique_ptr<TrainingCallback> make_progress_of_seed(Verbosity verbosity, std::uint64_t seed) {
  if (verbosity != Verbosity::Normal) return std::make_unique<TrainingCallback>();
  return std::make_unique<SeedLines>(seed);
}

}  // namespace adaact::app
