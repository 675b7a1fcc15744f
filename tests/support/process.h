#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/run_files.h"

namespace adaact::testing {

/// Another program. Killed with this object if it still runs.
class Process {
 public:
  /// What it prints, on both channels, goes to a file.
  Process(std::vector<std::string> command, std::filesystem::path output)
      : output_(std::move(output)) {
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int error =
        ::posix_spawnp(&id_, arguments[0], &actions, nullptr, arguments.data(), ::environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error(command[0] + ": " + std::strerror(error));
  }
  /// A process that does this and no more: ends with what it returns, where it returns.
  Process(const std::function<int()>& program, std::filesystem::path output)
      : output_(std::move(output)) {
    std::fflush(nullptr);  // or the child would print it as well
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (id_ > 0) return;
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::_exit(program());
  }
  ~Process() {
    if (id_ <= 0) return;
    send(SIGKILL);
    wait();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }

  void send(int signal) const { ::kill(id_, signal); }

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == id_;
  }

  /// Waits for its end: the exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string printed() const { return bytes_of(output_); }

 private:
  std::filesystem::path output_;
  pid_t id_ = 0;
};

/// Whether this process has no thread but the one that asks: a child would have none of the others.
inline bool has_one_thread() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads)) == 1;
}

/// Waits until `condition` holds or the process has ended; returns whether it holds.
inline bool wait_until(const Process& process, const std::function<bool()>& condition) {
  while (!condition()) {
    if (process.has_ended()) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace adaact::testing
