#pragma once

#include <unordered_map>

#include <torch/nn/module.h>
#include <torch/types.h>

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

 private:
  const NarrowWeights* outer_;
  std::unordered_map<const c10::TensorImpl*, torch::Tensor> copies_;
  StandIns stand_ins_;  // hold the parameters, too
};

}  // namespace adaact
