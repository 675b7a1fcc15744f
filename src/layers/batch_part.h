#pragma once

#include <cstdint>
#include <utility>

namespace adaact {

/// While one lives, this thread works on a part of a batch that others have the rest of. What is drawn for each image
/// is drawn for the whole batch, by everybody alike, and each takes its part: the images of different ranks have
/// numbers of their own, and those that one process would draw.
class BatchPart {
 public:
  /// The part begins at image `begin` of a batch of `whole` images.
  BatchPart(std::int64_t begin, std::int64_t whole)
      : begin_(begin), whole_(whole), outer_(std::exchange(innermost(), this)) {}
  ~BatchPart() { innermost() = outer_; }
  BatchPart(const BatchPart&) = delete;
  BatchPart& operator=(const BatchPart&) = delete;

  /// Null where a batch is its own whole.
  static const BatchPart* current() { return innermost(); }

  std::int64_t begin() const { return begin_; }
  std::int64_t whole() const { return whole_; }

 private:
  static const BatchPart*& innermost() {
    thread_local const BatchPart* part = nullptr;
    return part;
  }

  const std::int64_t begin_;
  const std::int64_t whole_;
  const BatchPart* const outer_;
};

}  // namespace adaact
