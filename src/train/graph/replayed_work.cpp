#include "train/graph/replayed_work.h"

#include <mutex>
#include <utility>

#include "train/graph/set_up_mutex.h"

namespace adaact {

ReplayedWork::ReplayedWork(Recorder record) : record_(std::move(record)) {}

ReplayedWork::~ReplayedWork() {
  if (!replay_) return;
  // A graph takes leave of LibTorch's generator, which those of other threads know, too.
  const std::lock_guard<std::mutex> lock(set_up_mutex());
  replay_ = nullptr;
}

void ReplayedWork::run(const std::function<void()>& work, std::int64_t generation) {
  if (generation == kNotReady || generation != generation_) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    replay_ = nullptr;
    generation_ = kNotReady;  // should the work throw
    work();
    generation_ = generation;
    return;
  }
  if (!replay_) {
    const std::lock_guard<std::mutex> lock(set_up_mutex());
    replay_ = record_(work);
  }
  replay_();
}

}  // namespace adaact
