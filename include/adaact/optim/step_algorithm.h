#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <adaact/optim/non_finite.h>
#include <torch/optim/optimizer.h>

namespace adaact {

class StepParts;

/// Something that a step needs to be finite. An error says "<what> '<parameter>' is not finite".
struct Checked {
  torch::Tensor tensor;
  const char* what;
  std::size_t parameter;  // index into the model's parameters
};

/// What an algorithm has measured for one step; each has a type of its own.
struct StepStatistics {
  virtual ~StepStatistics() = default;
  std::vector<Checked> checked;  // beside gradients
};

/// A step in four parts. Every optimizer of this library is written in them but SAM, which takes the steps of
/// another, and step() is the four in a row. On a GPU measure() and apply() only enqueue work.
class StepAlgorithm {
 public:
  virtual ~StepAlgorithm() = default;

 protected:
  friend class StepParts;

  /// Turns what was observed since the last step into the statistics of this one. Throws what went wrong
  /// in an observation.
  virtual std::shared_ptr<const StepStatistics> measure() = 0;
  /// What only the host can do, such as factors and their inverses. Whatever can fail does so before
  /// anything has changed.
  virtual void decide(const StepStatistics& /*statistics*/) {}
  /// Changes state and parameters: the same work on the same memory in every step.
  virtual void apply(const StepStatistics& statistics) = 0;
  /// Brings the counts on the host up to date: so many steps were taken.
  virtual void settle(std::int64_t steps) = 0;

  /// A step on a GPU changed a parameter of the model out of all proportion.
  virtual void on_outsized_change(std::size_t /*parameter*/) {}

  /// Forgets what was observed: there will be no step.
  virtual void drop_observations() {}

  virtual NonFinitePolicy non_finite_policy() const = 0;
  /// Most rules have no meaning for sparse gradients.
  virtual bool takes_sparse_gradients() const { return false; }
  /// The parameters in groups or their options may have changed.
  virtual void on_groups_indexed() {}

  /// Who carries the parts out.
  virtual StepParts& step_parts() noexcept = 0;
};

}  // namespace adaact
