#pragma once

#include <optional>
#include <unordered_map>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "layers/gradients_aside.h"
#include "observe/stand_ins.h"

namespace adaact {

/// Under autocast on a GPU: all weights and biases of a model's convolutions and linear layers in the dtype that
/// layers compute in, made in one launch when it is made. Their gradients become those of the parameters in one
/// launch too, when the backward pass has all of them. Autocast has a launch for each, there and back.
///
/// It holds for the layers of this thread while it lives. Observers take a copy for its parameter.
class NarrowWeights {
 public:
  /// Nothing is copied where layers take their plain path for this input, or where autocast is off.
  NarrowWeights(const torch::nn::Module& model, const torch::Tensor& input);
  ~NarrowWeights();
  NarrowWeights(const NarrowWeights&) = delete;
  NarrowWeights& operator=(const NarrowWeights&) = delete;

  /// What a layer gives an operator that autocast casts for: a copy, or the parameter where there is none.
  static torch::Tensor of(const torch::Tensor& parameter);

  /// A copy for an operator that makes no gradient of it: somebody else does, and adds it to `gradients`.
  struct Constant {
    torch::Tensor copy;
    c10::intrusive_ptr<GradientsAside> gradients;
  };
  /// Nothing where of() returns the parameter, or where it needs no gradient.
  static std::optional<Constant> constant_of(const torch::Tensor& parameter);

 private:
  struct Copies {
    torch::Tensor with_gradient;
    torch::Tensor constant;  // the same memory
  };

  static const Copies* copies_of(const torch::Tensor& parameter);

  const NarrowWeights* outer_;
  std::unordered_map<const c10::TensorImpl*, Copies> copies_;
  c10::intrusive_ptr<GradientsAside> gradients_ = c10::make_intrusive<GradientsAside>();
  StandIns stand_ins_;  // hold the parameters, too
};

}  // namespace adaact
