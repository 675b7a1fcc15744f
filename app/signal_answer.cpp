#include "signal_answer.h"

#include <atomic>
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "commands.h"
#include "status_line.h"
#include "train/run/interrupt.h"

namespace adaact::app {
namespace {

constexpr std::int64_t kOtherWork = 0;
constexpr std::int64_t kEvaluation = -1;
std::atomic<std::int64_t> step_being_taken{kOtherWork};

/// A line that a signal handler may put together.
class SignalLine {
 public:
  void add(const char* text) {
    while (*text != '\0' && length_ < sizeof(text_)) text_[length_++] = *text++;
  }
  void add(std::int64_t number) {
    char digits[24];
    auto* first = digits + sizeof(digits);
    *--first = '\0';
    do {
      *--first = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    add(first);
  }
  void print() const {
    const auto written = ::write(STDERR_FILENO, text_, length_);
    static_cast<void>(written);  // who cannot be told cannot be told that either
  }

 private:
  char text_[200];
  std::size_t length_ = 0;
};

void answer(int signal, bool again) {
  clear_status_line();
  if (!notices_are_wanted()) return;
  SignalLine line;
  line.add("adaact: ");
  if (again) {
    line.add("stopped at once; --resume goes on from the last checkpoint\n");
    line.print();
    return;
  }
  const auto step = step_being_taken.load();
  if (step == kEvaluation) {
    line.add("leaving the evaluation and saving");
  } else if (step == kOtherWork) {
    line.add("finishing what is being done and saving");
  } else {
    line.add("finishing step ");
    line.add(step);
    line.add(" and saving");
  }
  if (signal == SIGINT) line.add("; Ctrl-C again stops at once");
  line.add("\n");
  line.print();
}

}  // namespace

void answer_signals() { InterruptGuard::set_listener(answer); }
void note_step_being_taken(std::int64_t step) { step_being_taken = step; }
void note_evaluation() { step_being_taken = kEvaluation; }
void note_other_work() { step_being_taken = kOtherWork; }

}  // namespace adaact::app
