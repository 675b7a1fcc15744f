#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/custom_class.h>
#include <torch/types.h>

namespace adaact {

/// Gradients of weights that a second stream makes while the backward pass goes on. No layer waits for them, and the
/// kernels that make them leave most of a large GPU idle where a layer is small: those of a 3×3 convolution of 64
/// channels are nine blocks.
class GradientsAside : public torch::CustomClassHolder {
 public:
  GradientsAside() = default;
  /// The current stream may use again what unfinished work reads.
  ~GradientsAside() override;
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

  /// A part of the gradient of `weight`: make() is called at once and enqueues its work. `read` is what it reads of
  /// what the current stream wrote; it is held until that stream knows that the work is done.
  void add(const torch::Tensor& weight, std::vector<torch::Tensor> read,
           const std::function<torch::Tensor()>& make);

  /// The sum of the parts; undefined where there are none. From now on the current stream waits for all of them.
  torch::Tensor take(const torch::Tensor& weight);

 private:
  struct UnderWay {
    std::vector<torch::Tensor> read;
    c10::Event done;
    c10::Stream waits;
  };

  void wait_for_first();

  std::deque<UnderWay> under_way_;
  std::unordered_map<const c10::TensorImpl*, torch::Tensor> sums_;
};

}  // namespace adaact
