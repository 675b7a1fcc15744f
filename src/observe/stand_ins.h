#pragma once

#include <cstdint>
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

  /// Who makes the parameter's gradient: the operator that is given the copy, as usual, or somebody else, for an
  /// operator that is given a copy without a gradient.
  enum class Gradient : std::uint8_t { ByOperator, BySomebodyElse };

  /// The copy, no view of anything, has the parameter's shape and order in memory, in any dtype.
  void add(const torch::Tensor& copy, const torch::Tensor& parameter,
           Gradient gradient = Gradient::ByOperator);

  struct Original {
    torch::Tensor
        parameter;  // or a view of it; undefined where the operand is no copy nor a view of one
    Gradient gradient = Gradient::ByOperator;
  };
  /// What an operand stands for.
  static Original original_of(const torch::Tensor& operand);

 private:
  struct StandIn {
    torch::Tensor copy;  // held, so that no other tensor can come to have its identity
    Original original;
  };

  const StandIns* outer_;
  std::unordered_map<const c10::TensorImpl*, StandIn> by_copy_;
};

}  // namespace adaact
