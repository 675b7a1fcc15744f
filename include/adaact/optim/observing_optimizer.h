#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <adaact/observe/observer.h>
#include <adaact/optim/named_optimizer.h>
#include <adaact/ranks/communicator.h>

namespace adaact {

class SharedSums;

/// Whether ranks divide the work on factors: FOOF's, KFAC's and that of AdaAct's full covariance.
enum class ShareFactors : std::uint8_t {
  Yes,  // each rank inverts its part of the layers' factors and hands them round
  No,   // each inverts them all, and nothing but statistics travels
};

/// Something that can be one optimizer on many ranks.
class SharesStatistics {
 public:
  virtual ~SharesStatistics() = default;

  /// From now on what is observed is added up over the ranks, each of which has the same model and an optimizer like
  /// this one, and takes the same steps. Sums and counts are what travels, so that a step is what it would be in one
  /// process that saw the batches of all ranks, whatever part each of them has had; a rank may have had none.
  ///
  /// Gradients are not this optimizer's to add up: step() wants those of all ranks, of a loss that is a mean over the
  /// samples of all. A rank's part of it is the sum over its own samples divided by the number of all.
  void share_statistics(const std::shared_ptr<Communicator>& ranks,
                        ShareFactors factors = ShareFactors::Yes);

 protected:
  SharesStatistics() = default;
  SharesStatistics(const SharesStatistics&) = default;
  SharesStatistics(SharesStatistics&&) = default;
  SharesStatistics& operator=(const SharesStatistics&) = default;
  SharesStatistics& operator=(SharesStatistics&&) = default;

 private:
  virtual void share_with(const std::shared_ptr<Communicator>& ranks, ShareFactors factors) = 0;
};

/// SharesStatistics::share_statistics() of an optimizer of any kind; where it observes nothing, nothing is to be done.
void share_statistics(torch::optim::Optimizer& optimizer,
                      const std::shared_ptr<Communicator>& ranks,
                      ShareFactors factors = ShareFactors::Yes);

struct ParameterCoverage {
  std::string name;
  bool observed = false;
  std::string reason;  // why, or why not
};

/// Writes one line per parameter.
std::ostream& operator<<(std::ostream& out, const std::vector<ParameterCoverage>& coverage);

/// An optimizer that needs to see what flows through the layers of its model.
///
/// Statistics belong to steps: what is observed between two steps, in however many forward passes,
/// counts as one batch. zero_grad() leaves it alone. So a forward pass that belongs to no step must
/// not be observed: evaluate under torch::NoGradGuard, in evaluation mode, or in a
/// pause_observation(). KFAC alone sees backward passes too, and counts a use only where its gradient
/// is part of the weight's when step() is called. (On a GPU a gradient that was zeroed instead of dropped still
/// counts as there: nobody waits for the device to look at it.)
///
/// step() also throws what went wrong in an observation since the last one. Whatever it throws, the
/// pending observations are dropped. Where ranks share their statistics, it is thrown on all of them.
class ObservingOptimizer : public NamedOptimizer, public SharesStatistics {
 public:
  ~ObservingOptimizer() override;

  /// Observation stops while the returned object lives.
  [[nodiscard]] ObservationPause pause_observation() const;
  /// Forgets what was observed since the last step.
  void discard_observations();
  /// Reports the input of a layer that no LibTorch operator shows, as Observer::observe. KFAC needs
  /// the layer's output too, before the backward pass.
  void observe(const torch::Tensor& weight, const torch::Tensor& input,
               const Geometry& geometry = Geometry::linear(), const torch::Tensor& output = {});

  /// For every parameter: does what was observed shape its update, and if not, why.
  std::vector<ParameterCoverage> coverage() const;

 protected:
  using NamedOptimizer::NamedOptimizer;
  ObservingOptimizer(ObservingOptimizer&&) noexcept;

  void start_observing(std::shared_ptr<Listener> listener);
  /// To be called in measure(), once it has taken what the listener has gathered.
  void rethrow_failed_observation() const { observer_->rethrow_failure(); }

  /// Has the listener start anew.
  virtual void clear_observations() = 0;
  /// Why this parameter's update follows what was observed; empty where it does not.
  virtual std::string why_observed(std::size_t index) const = 0;
  /// Why this parameter's update does not follow what was observed, beyond what is known here; empty where nothing is.
  virtual std::string why_not_observed(std::size_t /*index*/) const { return {}; }
  /// What trains a weight that nothing was observed of, for a warning.
  virtual std::string rule_for_unobserved() const = 0;

  /// Whether this weight has a bias with one number per row, trained or not.
  bool has_fitting_bias(std::size_t weight) const;
  /// The bias, if any, that can be one more input column of this weight: managed, not frozen, one number
  /// per row.
  std::optional<std::size_t> joint_bias(std::size_t weight) const;

  /// Whether the gradient of a layer's output is part of what is observed.
  virtual bool needs_output() const { return false; }

  /// For measure(): adds up what this rank has observed. Null where it is on its own.
  SharedSums* shared_sums() const noexcept { return shared_sums_.get(); }
  /// For decide(): adds up the factors that each rank has inverted. Null where each does all by itself.
  SharedSums* shared_factors() const noexcept { return shared_factors_.get(); }

  void settle(std::int64_t steps) override;
  void drop_observations() override { discard_observations(); }
  void on_state_loaded() override;

 private:
  void share_with(const std::shared_ptr<Communicator>& ranks, ShareFactors factors) override;
  bool fits(std::size_t bias, std::size_t weight) const;
  void warn_about_unseen_layers() const;

  std::unique_ptr<Observer> observer_;
  std::unique_ptr<SharedSums> shared_sums_;
  std::unique_ptr<SharedSums> shared_factors_;
  bool first_step_done_ = false;
};

}  // namespace adaact
