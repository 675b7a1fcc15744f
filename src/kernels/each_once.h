#pragma once

#include <unordered_set>
#include <vector>

#include <torch/types.h>

namespace adaact {

/// Lists each tensor once; Module::parameters() has a tied one under each of its names.
inline std::vector<torch::Tensor> each_once(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> once;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& tensor : tensors) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) once.push_back(tensor);
  }
  return once;
}

}  // namespace adaact
