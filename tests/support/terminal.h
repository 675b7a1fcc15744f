#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace adaact::testing {

/// Another program on a terminal of its own, as a person has it in front of them. Killed with this object if
/// it still runs.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> command) {
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    winsize size{};
    size.ws_row = 40;
    size.ws_col = 100;
    id_ = ::forkpty(&screen_, nullptr, nullptr, &size);
    if (id_ < 0) throw std::runtime_error("there is no terminal to be had");
    if (id_ == 0) {
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::fcntl(screen_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      wait();
    }
    ::close(screen_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const {
    if (::write(screen_, keys.data(), keys.size()) < 0) throw std::runtime_error("nobody listens");
  }
  void press_control_c() const { type("\x03"); }

  /// Waits until the text was shown, or the program has ended; returns whether it was.
  bool wait_for(const std::string& text) {
    while (shown_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  /// Waits for its end: the exit code, or minus the signal that ended it.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// All that was written to it, control characters included.
  const std::string& shown() const { return shown_; }

 private:
  /// Reads what there is; false once the program has closed the terminal.
  bool read_some() {
    char buffer[4096];
    const auto bytes = ::read(screen_, buffer, sizeof(buffer));
    if (bytes > 0) {
      shown_.append(buffer, static_cast<std::size_t>(bytes));
      return true;
    }
    if (bytes == 0 || errno != EAGAIN) return false;  // EIO: nobody has it open any more
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }

  int screen_ = -1;
  pid_t id_ = 0;
  std::string shown_;
};

}  // namespace adaact::testing
