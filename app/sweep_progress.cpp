#include "sweep_progress.h"

#include <cstdio>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "commands.h"
#include "report/format.h"
#include "status_line.h"

namespace adaact::app {
namespace {

std::size_t letters_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string accuracy_text(const TrialResult& result) {
  const auto epochs = std::to_string(result.accuracies.size());
  const auto all = std::to_string(result.trial.config.epochs);
  if (!result.accuracy()) return "no epoch of " + all;
  return percent(*result.accuracy()) + " after epoch " + epochs + " of " + all;
}

std::string state_of_trial(const TrialResult& result) {
  switch (result.state) {
    case TrialState::Diverged:
      return "diverged in epoch " + std::to_string(result.diverged_in_epoch);
    case TrialState::Failed:
      return "failed: " + result.error;
    case TrialState::Unfinished:
      return accuracy_text(result);
    case TrialState::NotBegun:
      return to_string(result.state);
    case TrialState::Finished:
    case TrialState::StoppedEarly:
      break;
  }
  return to_string(result.state) + std::string(": ") + accuracy_text(result);
}

std::string line_of(const SweepEvent& event) {
  const auto& result = event.result;
  switch (event.kind) {
    case SweepEvent::Kind::IsThere:
      return (result.state == TrialState::Failed ? "" : "already ") + state_of_trial(result);
    case SweepEvent::Kind::Begins:
      return result.accuracies.empty()
                 ? "begins"
                 : "goes on after epoch " + std::to_string(result.accuracies.size());
    case SweepEvent::Kind::Ends:
    case SweepEvent::Kind::Stops:
      break;
  }
  return state_of_trial(result);
}

}  // namespace

/// Tells how far one trial is.
class SweepProgress::OfTrial : public TrainingCallback {
 public:
  OfTrial(SweepProgress& progress, std::string name)
      : progress_(progress), name_(std::move(name)) {}

  void on_step(const Trainer& trainer, const StepMetrics& metrics) override {
    const auto per_epoch = trainer.steps_per_epoch();
    const auto in_epoch = metrics.step - metrics.epoch * per_epoch;
    progress_.set_status(name_, std::to_string(metrics.epoch + 1) + "/" +
                                    std::to_string(trainer.steps() / per_epoch) + " " +
                                    std::to_string(100 * in_epoch / per_epoch) + " %");
  }

 private:
  SweepProgress& progress_;
  const std::string name_;
};

SweepProgress::SweepProgress(Verbosity verbosity, std::size_t trials)
    : verbosity_(verbosity),
      trials_(trials),
      on_terminal_(verbosity == Verbosity::Normal && ::isatty(STDOUT_FILENO) != 0) {}

SweepProgress::~SweepProgress() { clear_status_line(); }

void SweepProgress::on_event(const SweepEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto& result = event.result;
  const bool ended = result.is_lost() || result.state == TrialState::Finished ||
                     result.state == TrialState::StoppedEarly;
  if (ended && event.kind != SweepEvent::Kind::Begins) ++done_;
  if (event.kind == SweepEvent::Kind::Ends) statuses_.erase(result.trial.name);
  if (verbosity_ != Verbosity::Normal) return;
  clear_status_line();
  std::printf("[%zu/%zu] %s %s\n", done_, trials_, result.trial.name.c_str(),
              line_of(event).c_str());
  std::fflush(stdout);
}

void SweepProgress::on_message(const std::string& message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  print_notice(message);
}

std::unique_ptr<TrainingCallback> SweepProgress::callback_of(const Trial& trial) {
  if (!on_terminal_) return std::make_unique<TrainingCallback>();
  return std::make_unique<OfTrial>(*this, trial.name);
}

void SweepProgress::set_status(const std::string& trial, const std::string& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  statuses_[trial] = status;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  draw();
}

void SweepProgress::draw() {
  std::string line;
  for (const auto& [trial, status] : statuses_) {
    line += (line.empty() ? "" : "   ");
    line += trial + " " + status;
  }
  draw_status_line(line.substr(0, letters_of_terminal() - 1));
}

}  // namespace adaact::app
