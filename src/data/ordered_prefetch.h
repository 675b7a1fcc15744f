#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "io/warning_listener.h"

namespace adaact {

/// Makes items first … end-1 on several threads and hands them out in this order. At most `depth`
/// items are made or being made beyond those handed out. What LibTorch warns of in making one is warned of when
/// it is handed out: whoever listens to warnings does so on that thread. For use by one thread.
template <typename Item>
class OrderedPrefetch {
 public:
  /// `make` is called from all threads at once. When `abandoned` turns true, nobody wants the item
  /// any more, and it may return any.
  using Make = std::function<Item(std::int64_t number, const std::atomic<bool>& abandoned)>;

  OrderedPrefetch(std::int64_t first, std::int64_t end, std::int64_t threads, std::int64_t depth,
                  Make make)
      : make_(std::move(make)),
        end_(end),
        next_to_make_(first),
        next_to_take_(first),
        slots_(static_cast<std::size_t>(depth)) {
    try {
      for (std::int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();  // a thread that runs cannot be destroyed
      throw;
    }
  }
  ~OrderedPrefetch() { stop(); }
  OrderedPrefetch(const OrderedPrefetch&) = delete;
  OrderedPrefetch& operator=(const OrderedPrefetch&) = delete;

  /// Whether next() would return without waiting.
  bool ready() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return next_to_take_ == end_ || slot(next_to_take_).made();
  }

  /// Nothing after the last item. Throws what making the item threw, and stays at this item.
  std::optional<Item> next() {
    std::optional<Item> item;
    std::vector<std::string> warnings;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (next_to_take_ == end_) return item;
      auto& of_item = slot(next_to_take_);
      made_.wait(lock, [&] { return of_item.made(); });
      if (of_item.error) std::rethrow_exception(of_item.error);
      item = std::exchange(of_item.item, std::nullopt);
      warnings = std::move(of_item.warnings);
      ++next_to_take_;
    }
    taken_.notify_one();
    for (const auto& warning : warnings) TORCH_WARN(warning);
    return item;
  }

 private:
  struct Slot {
    std::optional<Item> item;
    std::exception_ptr error;
    std::vector<std::string> warnings;

    bool made() const { return item.has_value() || error; }
  };

  // Numbers in work are less than `depth` apart, so no two of them share a slot.
  Slot& slot(std::int64_t number) {
    return slots_[static_cast<std::size_t>(number) % slots_.size()];
  }

  bool has_room() const {
    return next_to_make_ - next_to_take_ < static_cast<std::int64_t>(slots_.size());
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      taken_.wait(lock, [this] { return stopping_ || next_to_make_ == end_ || has_room(); });
      if (stopping_ || next_to_make_ == end_) return;
      const auto number = next_to_make_++;
      lock.unlock();
      auto result = make(number);
      lock.lock();
      slot(number) = std::move(result);
      made_.notify_one();
    }
  }

  Slot make(std::int64_t number) {
    Slot result;
    const WarningListener listener(
        [&](const std::string& message) { result.warnings.push_back(message); });
    try {
      result.item = make_(number, stopping_);
    } catch (...) {
      result.error = std::current_exception();
    }
    return result;
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    taken_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  Make make_;
  const std::int64_t end_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::condition_variable taken_;
  std::atomic<bool> stopping_{false};
  std::int64_t next_to_make_;
  std::int64_t next_to_take_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace adaact
