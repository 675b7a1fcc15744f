#pragma once

#include <unordered_map>

#include <torch/types.h>

namespace adaact {

/// Copies of parameters that operators of this thread are given in their place while it lives. An observer takes a
/// copy for its parameter, and a view of a copy for the same view of the parameter.
class StandIns {
 public:
  StandIns();
  ~StandIns();
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  /// The copy, no view of anything, has the parameter's shape and order in memory, in any dtype.
  void add(const torch::Tensor& copy, const torch::Tensor& parameter);

  /// What an operand stands for: undefined where it is no copy nor a view of one.
  static torch::Tensor original_of(const torch::Tensor& operand);

 private:
  struct StandIn {
    torch::Tensor copy;  // held, so that no other tensor can come to have its identity
    torch::Tensor parameter;
  };

  const StandIns* outer_;
  std::unordered_map<const c10::TensorImpl*, StandIn> by_copy_;
};

}  // namespace adaact
