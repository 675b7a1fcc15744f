#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <adaact/models/model.h>
#include <torch/csrc/jit/api/module.h>

namespace adaact {

/// Values beside the weights that whoever loads a module can ask for: its classes, say.
using ScriptAttributes = std::vector<std::pair<std::string, c10::IValue>>;

/// A model in evaluation mode as TorchScript: its forward pass, recorded once with `example`, behind `prepare`,
/// which turns what the module is given into the model's input. Parameters and buffers have the names of
/// state_tensors() and share their memory with the model.
///
/// What is recorded holds the numbers that the code took from sizes. The models of the registry take none
/// from the number of images.
torch::jit::Module traced_module(Model& model, const torch::Tensor& example,
                                 const std::function<torch::Tensor(const torch::Tensor&)>& prepare,
                                 const ScriptAttributes& attributes);

}  // namespace adaact
