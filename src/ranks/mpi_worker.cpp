#include "ranks/mpi_worker.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <sstream>
#include <utility>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "ranks/mpi_calls.h"
#include "ranks/mpi_signals_blocked.h"

namespace adaact {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// After anything has happened it does not sleep at all for a moment, then longer and longer: what has not come soon may
// take long. While the program does nothing but wait, which leaves the core free, the moment is longer and naps are
// shorter. Numbers on their way must be attended to in any case.
constexpr duration<double> kAttention = microseconds(50);
constexpr duration<double> kAttentionWhileWaitedFor = milliseconds(1);
constexpr duration<double> kShortestNap = microseconds(5);
constexpr duration<double> kLongestNap = milliseconds(1);
constexpr duration<double> kLongestNapWhileWaitedFor = microseconds(200);
constexpr duration<double> kLongestNapWhileNumbersMove = microseconds(20);
// A thread that has nothing to wait for sleeps no longer than this, because other ranks may have questions.
constexpr duration<double> kIdleNap = milliseconds(10);
constexpr duration<double> kBetweenListening = milliseconds(1);

// The time that a rank which is there may take to answer.
constexpr duration<double> kTimeToAnswer = seconds(2);
// The time that a message to a rank which is there may take to leave.
constexpr duration<double> kTimeToTell = milliseconds(200);
// Rank 0 asks first and tells all others what it has found out; they ask for themselves where it does not.
constexpr duration<double> kHeadStart = milliseconds(2500);
// The time that all ranks together may take to start, beyond the timeout: of thousands it takes long.
constexpr duration<double> kTimeToStart = seconds(60);
// A thread that was away for longer than this was stopped, as a suspended job is, and was not waiting.
constexpr duration<double> kLongestAbsence = seconds(1);

/// Keeps the buffers of collectives that will never be done, because MPI may still write to them.
void keep_for_ever(std::deque<std::shared_ptr<MpiWorker::Task>> tasks) {
  static auto* const kept = new std::deque<std::shared_ptr<MpiWorker::Task>>;
  for (auto& task : tasks) kept->push_back(std::move(task));
}

std::string in_seconds(duration<double> time) {
  std::ostringstream text;
  text << time.count() << " s";
  return text.str();
}

}  // namespace

std::unique_ptr<MpiWorker> MpiWorker::start(const MpiOptions& options) {
  auto worker = std::unique_ptr<MpiWorker>(new MpiWorker(options));
  {
    const MpiSignalsBlocked blocked;
    worker->thread_ = std::thread([its = worker.get()] { its->run(); });
  }
  std::unique_lock<std::mutex> lock(worker->mutex_);
  const auto limit = options.timeout + kTimeToStart;
  if (!worker->for_callers_.wait_for(lock, limit, [&] { return worker->has_started_; })) {
    lock.unlock();
    worker->thread_.detach();
    static_cast<void>(worker.release());  // the thread, which nothing can end, still uses it
    throw RankError("not all ranks have started within " + in_seconds(limit));
  }
  if (!worker->failure_.empty()) {
    const auto failure = worker->failure_;
    lock.unlock();
    throw RankError(failure);
  }
  return worker;
}

MpiWorker::~MpiWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_leaving_ = true;
    leaves_by_exception_ = std::uncaught_exceptions() > 0;
    is_to_wake_ = true;
  }
  for_thread_.notify_one();
  thread_.join();
}

const std::string& MpiWorker::describe(std::int64_t rank) const {
  return names_.at(static_cast<std::size_t>(rank));
}

void MpiWorker::begin(std::shared_ptr<Task> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.empty()) throw RankError(failure_);
    new_.push_back(std::move(task));
    is_to_wake_ = true;
  }
  for_thread_.notify_one();
}

void MpiWorker::wait(const Task& task) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (task.is_done) return;
  const auto since = Clock::now();
  ++waiting_callers_;
  is_to_wake_ = true;
  for_thread_.notify_one();
  for_callers_.wait(lock, [&] { return task.is_done || !failure_.empty(); });
  --waiting_callers_;
  traffic_.seconds_waited += Seconds(Clock::now() - since).count();
  if (!task.is_done) throw RankError(failure_);
}

MpiTraffic MpiWorker::traffic() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return traffic_;
}

void MpiWorker::abort_all(int exit_code) {
  std::unique_lock<std::mutex> lock(mutex_);
  abort_code_ = exit_code;
  is_to_wake_ = true;
  for_thread_.notify_one();
  for_callers_.wait_for(lock, kTimeToAnswer, [] { return false; });
}

void MpiWorker::run() {
#ifdef __linux__
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds: the default is longer than the shortest naps
#endif
  try {
    initialize();
  } catch (const std::exception& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = error.what();
  }
  bool has_failed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_started_ = true;
    has_failed = !failure_.empty();
  }
  for_callers_.notify_all();
  if (has_failed) return;
  work();
  if (do_all_come_to_their_end()) MPI_Finalize();
}

void MpiWorker::initialize() {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0)
    throw RankError("mpi_communicator(): this program has started MPI itself");
  int threads = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &threads), "MPI_Init_thread");
  if (threads < MPI_THREAD_FUNNELED) {
    throw RankError("mpi_communicator(): this MPI does not allow a program to have threads");
  }
  for (auto* ranks : {&channels_.for_numbers, &channels_.for_arrivals, &for_roll_call_}) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, ranks), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(*ranks, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  roll_call_.emplace(for_roll_call_);
  int size = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  channels_.rank = rank_;
  channels_.size = size;

  constexpr int kLongest = MPI_MAX_PROCESSOR_NAME;
  std::vector<char> hosts(static_cast<std::size_t>(size) * kLongest);
  char* const own = hosts.data() + static_cast<std::ptrdiff_t>(rank_) * kLongest;
  int length = 0;
  check_mpi(MPI_Get_processor_name(own, &length), "MPI_Get_processor_name");
  check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts.data(), kLongest, MPI_CHAR,
                          channels_.for_arrivals),
            "MPI_Allgather");
  for (int rank = 0; rank < size; ++rank) {
    const char* const host = hosts.data() + static_cast<std::ptrdiff_t>(rank) * kLongest;
    names_.push_back("rank " + std::to_string(rank) + " (" + host + ")");
  }
  now_ = Clock::now();
}

void MpiWorker::work() {
  for (;;) {
    look_at_the_clock();
    const bool goes_on = take_new();
    bool has_moved = false;
    try {
      has_moved = advance();
      listen();
      look_for_late_ranks();
    } catch (const RankError& error) {
      fail(error.what());
      tell_the_others(error.what());
    } catch (const std::exception& error) {
      // Such as a lack of memory, which is this rank's own and does not say so.
      const auto failure = describe(rank_) + ": " + error.what();
      fail(failure);
      tell_the_others(failure);
    }
    if (!goes_on && under_way_.empty()) return;
    pause(has_moved);
  }
}

/// Returns false when nothing more will come.
bool MpiWorker::take_new() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (const auto code = abort_code_) {
    lock.unlock();  // who waits for the end gives up some time, and needs the lock for that
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, *code);
  }
  if (std::exchange(is_to_wake_, false)) last_event_ = now_;
  is_waited_for_ = waiting_callers_ > 0;
  for (auto& task : new_) {
    task->number = ++begun_;
    task->begun = awake_;
    under_way_.push_back(std::move(task));
  }
  new_.clear();
  if (leaves_by_exception_) keep_for_ever(std::exchange(under_way_, {}));
  return !is_leaving_;
}

void MpiWorker::look_at_the_clock() {
  const auto before = std::exchange(now_, Clock::now());
  const Seconds passed = now_ - before;
  awake_ += std::min(passed, Seconds(kLongestAbsence));
  if (under_way_.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  traffic_.seconds_busy += passed.count();
  if (do_numbers_move_) traffic_.seconds_moving += passed.count();
}

/// Returns whether anything has come further.
bool MpiWorker::advance() {
  bool has_moved = false;
  do_numbers_move_ = false;
  auto stage_of_previous = MpiCollective::Stage::kDone;
  for (auto& task : under_way_) {
    auto& collective = task->collective;
    const bool has_advanced = collective.advance(stage_of_previous, channels_);
    has_moved = has_moved || has_advanced;
    stage_of_previous = collective.stage();
    if (stage_of_previous == MpiCollective::Stage::kNumbersMove) {
      do_numbers_move_ = true;
    } else if (stage_of_previous == MpiCollective::Stage::kDone) {
      const std::lock_guard<std::mutex> lock(mutex_);
      task->is_done = true;
      traffic_.bytes += collective.bytes();
      traffic_.messages += collective.pieces();
    }
  }
  const auto first_not_done = std::remove_if(
      under_way_.begin(), under_way_.end(),
      [](const auto& task) { return task->collective.stage() == MpiCollective::Stage::kDone; });
  if (first_not_done != under_way_.end()) {
    under_way_.erase(first_not_done, under_way_.end());
    for_callers_.notify_all();
  }
  return has_moved;
}

void MpiWorker::listen() {
  if (now_ < next_listening_) return;
  next_listening_ = now_ + std::chrono::duration_cast<Clock::duration>(kBetweenListening);
  roll_call_->listen(begun_);
  if (!has_failed_ && !roll_call_->announced().empty()) fail(roll_call_->announced());
}

void MpiWorker::look_for_late_ranks() {
  if (under_way_.empty()) return;
  auto& late = *under_way_.front();
  if (asked_about_ != late.number) {
    const auto patience = options_.timeout + (rank_ == 0 ? Seconds(0) : Seconds(kHeadStart));
    if (awake_ - late.begun < patience) return;
    asked_about_ = late.number;
    asked_ = awake_;
    roll_call_->ask();
  } else if (roll_call_->have_all_answered() || awake_ - asked_ > kTimeToAnswer) {
    const auto call = late.collective.description() + ", call " + std::to_string(late.number);
    const auto missing =
        roll_call_->who_is_missing(late.number, names_, in_seconds(options_.timeout), call);
    if (!missing.empty()) throw RankError(missing);
    // All have come by now, so it should be done soon.
    if (late.had_more_time) {
      throw RankError("all ranks have come to " + call + ", but it was not done within " +
                      in_seconds(awake_ - late.begun) + ": is the network too slow, or cut?");
    }
    late.had_more_time = true;
    late.begun = awake_;
    asked_about_ = 0;
  }
}

void MpiWorker::fail(const std::string& failure) {
  has_failed_ = true;
  keep_for_ever(std::exchange(under_way_, {}));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    new_.clear();
    if (failure_.empty()) failure_ = failure;
  }
  for_callers_.notify_all();
}

void MpiWorker::pause(bool has_moved) {
  if (has_moved) last_event_ = now_;
  if (last_event_ == now_) nap_ = kShortestNap;
  auto nap = Seconds(kIdleNap);
  if (!under_way_.empty()) {
    if (now_ - last_event_ < (is_waited_for_ ? kAttentionWhileWaitedFor : kAttention)) {
      if (is_waited_for_) std::this_thread::yield();
      return;
    }
    const auto longest = do_numbers_move_ ? kLongestNapWhileNumbersMove
                         : is_waited_for_ ? kLongestNapWhileWaitedFor
                                          : kLongestNap;
    nap = std::min(nap_, Seconds(longest));
    nap_ = 1.5 * nap;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  for_thread_.wait_for(lock, nap, [&] { return is_to_wake_; });
}

/// What cannot be told, because a rank or MPI itself is gone, others find out by their own timeout.
void MpiWorker::tell_the_others(const std::string& failure) {
  try {
    roll_call_->announce(failure);
    const auto since = awake_;
    while (!roll_call_->is_all_sent() && awake_ - since < kTimeToTell) {
      std::this_thread::sleep_for(kBetweenListening);
      look_at_the_clock();
    }
  } catch (const RankError&) {
  }
}

/// Returns whether MPI_Finalize(), which would wait for ever for a rank that is gone, may be called.
bool MpiWorker::do_all_come_to_their_end() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_.empty()) return false;
    if (leaves_by_exception_) {
      lock.unlock();
      tell_the_others(describe(rank_) + " has given up because of an error of its own");
      return false;
    }
  }
  try {
    std::vector<MPI_Request> end(1);
    check_mpi(MPI_Ibarrier(for_roll_call_, end.data()), "MPI_Ibarrier");
    // Others may have much to write at their end: whoever answers is waited for.
    auto since = awake_;
    bool has_asked = false;
    while (!all_done(end)) {
      std::this_thread::sleep_for(kBetweenListening);
      look_at_the_clock();
      roll_call_->listen(MpiRollCall::kHasEnded);
      if (!roll_call_->announced().empty()) return false;
      if (!has_asked && awake_ - since > options_.timeout) {
        roll_call_->ask();
        has_asked = true;
        since = awake_;
      } else if (has_asked && roll_call_->have_all_answered()) {
        has_asked = false;
        since = awake_;
      } else if (has_asked && awake_ - since > kTimeToAnswer) {
        return false;
      }
    }
    return true;
  } catch (const RankError&) {
    return false;
  }
}

}  // namespace adaact
