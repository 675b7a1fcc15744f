#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>

#include "optim/kronecker/gradient_watch.h"

namespace adaact {

/// Σ a aᵀ and Σ s sᵀ of some rows of one weight since the last step.
struct FactorSums {
  std::size_t weight = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Moment inputs;                       // (g, n, n)
  Moment gradients;                    // (g, r, r); undefined where not wanted
  std::int64_t samples = 0;            // sizes of dimension 0; the rows are samples × positions
  bool of_returned_gradients = false;  // by torch::autograd::grad
};

/// Adds up the factors of the layers it is told to measure.
///
/// Where output gradients are wanted, a use of a weight counts as the pair of its input and its output
/// gradient, and only if a backward pass has made the weight's gradient of it that the step will see:
///
/// - Passes that come the same way, of a graph that is kept, bring parts of one output gradient.
/// - What passes brought is dropped with the gradient they made (GradientWatch).
/// - Gradients that torch::autograd::grad returns count where nothing was added to the weight's own.
class FactorListener : public Listener {
 public:
  struct Layer {
    bool measured = false;
    bool with_bias = false;
    bool with_gradients = false;
    std::int64_t max_size = 0;  // larger factors are not measured
  };

  explicit FactorListener(const LayerMap& model);

  void set_layers(std::vector<Layer> layers);
  /// Which parameters of the model are weights that are to be measured.
  std::vector<bool> measured_layers() const;

  void on_input(const LayerUse& use, const torch::Tensor& input) override;
  OutputGradientListener listen_to_output(const LayerUse& use, const torch::Tensor& input) override;
  void on_unrecorded_use(const LayerUse& use) override;

  /// What it means for the pairs of a weight that its gradient has changed since the last backward pass and is zero.
  enum class ZeroGradient : std::uint8_t {
    IsDropped,  // it was zeroed, and they go with it
    IsThere,    // it is the sum of all ranks' gradients
  };
  /// Hands over what has been added up and starts anew.
  std::vector<FactorSums> take(ZeroGradient zero = ZeroGradient::IsDropped);
  /// Drops what has been added up and starts anew. Backward passes through what was used so far no longer count.
  void discard();

  /// The larger of a weight's two factors where it exceeded the limit; 0 where none did.
  std::int64_t excessive_size(std::size_t weight) const;
  /// Weights with a use since the last step whose output gradient TorchScript hides.
  std::set<std::size_t> hidden_uses() const;
  /// Whether TorchScript hides the output gradient of the weight's last use.
  bool is_hidden(std::size_t weight) const;

 private:
  /// One use of a weight in a forward pass. Lives as long as autograd's graph.
  struct Use {
    LayerUse of;
    Moment inputs;  // undefined once its sum has been added
    std::int64_t samples = 0;
    std::int64_t discards = 0;  // before it
  };
  /// What passes through a graph that is kept have brought so far.
  struct Kept {
    std::shared_ptr<Use> use;
    bool is_added = true;
    torch::Tensor gradient;
  };

  bool can_be_measured(std::size_t parameter) const;
  std::int64_t largest_factor(const LayerUse& use, const Layer& layer) const;
  /// What is to be done with this use. A factor that is too large is noted and not measured.
  Layer layer_of(const LayerUse& use);
  Moment measured_input(const LayerUse& use, const torch::Tensor& input, bool with_bias) const;
  void on_output_gradient(const std::shared_ptr<Use>& use, const OutputGradient& arrived);

  // The functions that follow are called with the mutex held.
  FactorSums& sums_of(const LayerUse& use, bool of_returned_gradients);
  std::set<std::size_t> weights_with_pairs() const;
  void forget(std::size_t weight);
  void add_kept_of_graphs_that_are_gone();
  void add_pair(const Use& use, Moment inputs, Moment gradients, bool is_added);

  std::vector<torch::Tensor> parameters_;
  mutable std::mutex mutex_;
  std::vector<Layer> layers_;
  std::vector<std::int64_t> excessive_sizes_;
  std::vector<bool> hidden_;  // by parameter: in its last use
  std::set<std::size_t> hidden_uses_;
  std::vector<FactorSums> sums_;
  std::vector<Kept> kept_;
  std::shared_ptr<GradientWatch> gradients_;
  std::int64_t discards_ = 0;
};

}  // namespace adaact
