#pragma once

// Ranks that are threads of one process: all that a communicator must do, and nothing else.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <adaact/ranks/communicator.h>
#include <torch/torch.h>

namespace adaact::testing {

/// Where the threads meet. What the n-th call of each rank hands over is combined once all have come.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::int64_t ranks) : ranks_(ranks) {}

  /// All tensors of all ranks, by rank, once everybody has come; then `combine` of them runs on each thread, and nobody
  /// leaves before all are done.
  void meet(std::int64_t rank, const std::vector<torch::Tensor>& tensors,
            const std::function<void(const std::vector<std::vector<torch::Tensor>>&)>& combine) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto round = round_;
    brought_.resize(static_cast<std::size_t>(ranks_));
    brought_[static_cast<std::size_t>(rank)].clear();
    for (const auto& tensor : tensors) {
      brought_[static_cast<std::size_t>(rank)].push_back(tensor.clone());
    }
    if (++come_ == ranks_) {
      come_ = 0;
      ++round_;
      complete_ = brought_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round || failed_; });
    }
    if (failed_) throw RankError("another rank failed");
    combine(complete_);
    if (++done_ == ranks_) {
      done_ = 0;
      ++rounds_left_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return rounds_left_ != round || failed_; });
    }
  }

  void fail() {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  const std::int64_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t come_ = 0;
  std::int64_t done_ = 0;
  std::int64_t round_ = 0;
  std::int64_t rounds_left_ = 0;
  bool failed_ = false;
  std::vector<std::vector<torch::Tensor>> brought_;
  std::vector<std::vector<torch::Tensor>> complete_;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(std::shared_ptr<MeetingPlace> place, std::int64_t rank, std::int64_t size)
      : place_(std::move(place)), rank_(rank), size_(size) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }

  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    ++sums_;
    weigh(tensors);
    return std::make_unique<Sum>(*this, std::move(tensors));
  }
  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    weigh(tensors);
    place_->meet(rank_, tensors, [&](const auto& of_ranks) {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        tensors[i].copy_(of_ranks[static_cast<std::size_t>(root)][i]);
      }
    });
  }

  /// How many sums were begun.
  std::int64_t sums() const { return sums_; }
  /// How many bytes were handed over.
  std::int64_t bytes() const { return bytes_; }

 private:
  void weigh(const std::vector<torch::Tensor>& tensors) {
    for (const auto& tensor : tensors) bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  }

  /// Made when it is waited for: in the same order on all ranks.
  struct Sum : Pending {
    Sum(ThreadRank& of, std::vector<torch::Tensor> its_tensors)
        : rank(of), tensors(std::move(its_tensors)) {}
    void wait() override {
      rank.place_->meet(rank.rank_, tensors, [&](const auto& of_ranks) {
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          auto sum = of_ranks[0][i].clone();
          for (std::size_t r = 1; r < of_ranks.size(); ++r) {
            TORCH_CHECK(of_ranks[r][i].sizes() == sum.sizes() &&
                            of_ranks[r][i].scalar_type() == sum.scalar_type(),
                        "rank ", r, " sums ", of_ranks[r][i].sizes(), " with ", sum.sizes());
            sum.add_(of_ranks[r][i]);
          }
          tensors[i].copy_(sum);
        }
      });
    }
    ThreadRank& rank;
    std::vector<torch::Tensor> tensors;
  };

  std::shared_ptr<MeetingPlace> place_;
  const std::int64_t rank_;
  const std::int64_t size_;
  std::int64_t sums_ = 0;
  std::int64_t bytes_ = 0;
};

/// Runs `work` on so many ranks at a time. What the first of them threw is thrown again; the others then leave.
inline void on_ranks(std::int64_t size,
                     const std::function<void(const std::shared_ptr<ThreadRank>&)>& work) {
  const auto place = std::make_shared<MeetingPlace>(size);
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(std::make_shared<ThreadRank>(place, rank, size));
      } catch (...) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          if (!failure) failure = std::current_exception();
        }
        place->fail();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace adaact::testing
