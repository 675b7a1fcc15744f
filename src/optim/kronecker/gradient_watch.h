#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// Notices where the gradient of a parameter was set to zero, or to nothing, after a backward pass: nobody
/// is told of zero_grad(). On a GPU only the latter is noticed, because to look for zeros would mean to wait.
class GradientWatch : public std::enable_shared_from_this<GradientWatch> {
 public:
  explicit GradientWatch(std::vector<torch::Tensor> parameters);

  /// To be called in a backward pass that adds to this gradient: remembers it as the pass leaves it.
  void expect_addition(std::size_t parameter);
  /// Whether the gradient that the last pass left is gone. Says so once.
  bool was_dropped(std::size_t parameter);

 private:
  struct Mark {
    const void* tensor = nullptr;
    std::int64_t version = 0;
  };
  Mark mark_of(std::size_t parameter) const;

  const std::vector<torch::Tensor> parameters_;
  std::mutex mutex_;
  std::vector<Mark> left_;  // by parameter
};

}  // namespace adaact
