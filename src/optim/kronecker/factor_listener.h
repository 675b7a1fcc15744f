#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>

namespace adaact {

/// Σ a aᵀ and Σ s sᵀ of some rows of one weight since the last step.
struct FactorSums {
  std::size_t weight = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Moment inputs;                   // (g, n, n)
  std::int64_t input_samples = 0;  // sizes of dimension 0; the rows are samples × positions
  Moment gradients;                // (g, r, r); undefined where not wanted or not there yet
  std::int64_t gradient_samples = 0;
};

/// Adds up the factors of the layers it is told to measure.
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
  /// By parameter.
  std::vector<bool> measured_layers() const;

  void on_input(const LayerUse& use, const torch::Tensor& input) override;
  bool wants_output_gradient(const LayerUse& use) override;
  void on_output_gradient(const LayerUse& use, const torch::Tensor& gradient) override;

  /// Hands over what has been added up and starts anew.
  std::vector<FactorSums> take();

  /// The larger of a weight's two factors where it exceeded the limit; 0 where none did.
  std::int64_t excessive_size(std::size_t weight) const;

 private:
  /// What is to be done with this use. A factor that is too large is noted and not measured.
  Layer layer_of(const LayerUse& use);
  FactorSums* find_sums(const LayerUse& use);  // null where nothing was added up yet

  std::vector<torch::Tensor> parameters_;
  mutable std::mutex mutex_;
  std::vector<Layer> layers_;
  std::vector<std::int64_t> excessive_sizes_;
  std::vector<FactorSums> sums_;
};

}  // namespace adaact
