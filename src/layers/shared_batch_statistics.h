#pragma once

#include <memory>
#include <utility>

#include <adaact/ranks/communicator.h>

namespace adaact {

/// While one lives, the batch normalisations of this thread take the mean and the variance of all ranks' images.
/// Every rank must then make the same passes, also one that has no images.
class SharedBatchStatistics {
 public:
  explicit SharedBatchStatistics(std::shared_ptr<Communicator> ranks)
      : outer_(std::exchange(innermost(), std::move(ranks))) {}
  ~SharedBatchStatistics() { innermost() = std::move(outer_); }
  SharedBatchStatistics(const SharedBatchStatistics&) = delete;
  SharedBatchStatistics& operator=(const SharedBatchStatistics&) = delete;

  /// Null where each rank normalises by its own images.
  static const std::shared_ptr<Communicator>& ranks() { return innermost(); }

 private:
  static std::shared_ptr<Communicator>& innermost() {
    thread_local std::shared_ptr<Communicator> ranks;
    return ranks;
  }

  std::shared_ptr<Communicator> outer_;
};

}  // namespace adaact
