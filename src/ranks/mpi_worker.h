#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <adaact/ranks/mpi.h>
#include <mpi.h>

#include "ranks/mpi_collective.h"
#include "ranks/mpi_roll_call.h"

namespace adaact {

/// The thread that makes all calls of MPI in this process, from MPI_Init_thread() to MPI_Finalize(). Open MPI waits by
/// asking again and again, which would take the core from those who compute; so the thread asks, and sleeps in between.
class MpiWorker {
 public:
  /// Returns when all ranks have started; throws RankError where that takes much too long.
  static std::unique_ptr<MpiWorker> start(const MpiOptions& options);

  /// Waits for all ranks to come to their end as well, unless this one ends by an exception: then it tells the others.
  ~MpiWorker();
  MpiWorker(const MpiWorker&) = delete;
  MpiWorker& operator=(const MpiWorker&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(names_.size()); }
  const std::string& describe(std::int64_t rank) const;

  /// A collective and how it stands.
  struct Task {
    Task(MpiTensorRuns runs, std::optional<int> root, std::function<bool()> are_tensors_made)
        : collective(std::move(runs), root, std::move(are_tensors_made)) {}
    MpiCollective collective;
    std::int64_t number = 0;  // of all that were begun
    std::chrono::duration<double> begun{0};
    bool had_more_time = false;
    bool is_done = false;  // with the mutex
  };
  /// begin() and wait() throw RankError once anything has failed.
  void begin(std::shared_ptr<Task> task);
  void wait(const Task& task);

  MpiTraffic traffic() const;

  /// Has the thread end this process and all other ranks. Returns if it has not come to it after a while.
  void abort_all(int exit_code);

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  explicit MpiWorker(const MpiOptions& options) : options_(options) {}

  // The functions that follow are called by the thread alone.
  void run();
  void initialize();
  void work();
  bool take_new();
  void look_at_the_clock();
  void listen();
  bool advance();
  void look_for_late_ranks();
  void fail(const std::string& failure);
  void pause(bool has_moved);
  bool do_all_come_to_their_end();
  void tell_the_others(const std::string& failure);

  const MpiOptions options_;
  std::thread thread_;

  // Set before start() returns and read by everybody afterwards, so that no mutex is needed.
  int rank_ = 0;
  std::vector<std::string> names_;  // of the ranks, with their hosts

  // The members that follow are read and written by the thread alone, so that no mutex is needed.
  MpiChannels channels_;
  MPI_Comm for_roll_call_ = MPI_COMM_NULL;
  std::optional<MpiRollCall> roll_call_;
  std::deque<std::shared_ptr<Task>> under_way_;
  bool do_numbers_move_ = false;
  std::int64_t begun_ = 0;
  Clock::time_point now_;
  Seconds awake_{0};  // since the start, without the time in which the process was stopped
  std::int64_t asked_about_ = 0;  // the number of a collective that is late
  Seconds asked_{0};
  Clock::time_point last_event_;  // a call of the program's, or something that has come further
  bool is_waited_for_ = false;
  Clock::time_point next_listening_;
  Seconds nap_{0};
  bool has_failed_ = false;

  mutable std::mutex mutex_;
  std::condition_variable for_thread_;
  std::condition_variable for_callers_;
  // The members that follow are those of the thread and its callers, who hold the mutex.
  bool has_started_ = false;
  bool is_leaving_ = false;
  bool leaves_by_exception_ = false;
  std::optional<int> abort_code_;
  std::vector<std::shared_ptr<Task>> new_;
  bool is_to_wake_ = false;
  int waiting_callers_ = 0;
  std::string failure_;
  MpiTraffic traffic_;
};

}  // namespace adaact
