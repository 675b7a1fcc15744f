#pragma once

#include <functional>
#include <string_view>

#include <ATen/core/ivalue.h>
#include <adaact/observe/geometry.h>

namespace adaact {

/// A dispatched operator that multiplies an input by what may be a layer's weight. Pointers and
/// references point into the operator's argument list and live as long as it does.
struct LayerOperator {
  const torch::Tensor* input = nullptr;
  const torch::Tensor* weight = nullptr;
  const torch::Tensor* bias = nullptr;  // null where the operator has none
  bool weight_is_transposed = false;    // the operand is (features, rows), as in x · Wᵀ
  at::ArrayRef<const c10::IValue> arguments;
  Geometry (*read_geometry)(const LayerOperator&) = nullptr;
};

enum class OperatorClass {
  Irrelevant,
  Layer,
  Opaque,  // calls layer operators on weights that are none of a layer's: recurrent cells
};

/// Classifies an operator by name and, for OperatorClass::Layer, fills `layer`. An operator whose
/// arguments do not have the form of a layer (a transposed convolution, a scaled product) is
/// Irrelevant.
OperatorClass classify_operator(std::string_view name, at::ArrayRef<const c10::IValue> arguments,
                                LayerOperator& layer);

/// Whether autograd shows that a tensor is made of leaves of this kind and of nothing else. False wherever it
/// does not show it: beside tensors that take no gradient, beyond operators that also read indices or draw
/// random numbers, and for what took many operators to make.
bool comes_from_leaves_alone(const torch::Tensor& tensor,
                             const std::function<bool(const torch::Tensor&)>& is_such_leaf);

}  // namespace adaact
