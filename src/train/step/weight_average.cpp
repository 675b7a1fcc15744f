#include "train/step/weight_average.h"

#include <exception>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>

#include <adaact/observe/layer_map.h>
#include <torch/torch.h>

#include "io/error_text.h"

namespace adaact {
namespace {

/// What is averaged of a model, each under the first of its names. Counts are not.
NamedTensors averaged_tensors(const torch::nn::Module& model) {
  NamedTensors all;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& tensor : tensors) {
      const auto& value = tensor.value();
      if (!value.is_floating_point() || !seen.insert(value.unsafeGetTensorImpl()).second) continue;
      all.emplace_back(tensor.key(), value.detach());
    }
  }
  return all;
}

}  // namespace

WeightAverage::WeightAverage(const torch::nn::Module& model, double decay, AveragedWeights& values)
    : decay_(decay) {
  const bool begins = values.empty();
  for (const auto& [name, tensor] : averaged_tensors(model)) {
    auto& average = values[name];
    // In the tensor's own layout, as updates of many tensors at once want it.
    average = torch::empty_like(tensor).copy_(begins ? tensor : average);
    tensors_.push_back(tensor);
    averages_.push_back(average);
  }
}

void WeightAverage::update() {
  const torch::NoGradGuard no_grad;
  at::_foreach_mul_(averages_, decay_);
  at::_foreach_add_(averages_, tensors_, 1.0 - decay_);
}

AverageInPlace::AverageInPlace(const torch::nn::Module& model, const AveragedWeights& average) {
  if (average.empty()) return;
  // All memory is there before anything changes.
  for (const auto& [name, tensor] : averaged_tensors(model)) {
    places_.push_back({tensor, average.at(name), tensor.clone()});
  }
  // By value: captured passes know the parameters' memory.
  const torch::NoGradGuard no_grad;
  for (auto& place : places_) place.of_model.copy_(place.average);
}

AverageInPlace::~AverageInPlace() {
  try {
    const torch::NoGradGuard no_grad;
    for (auto& place : places_) {
      // An evaluation may have given the model buffers, those of another rank.
      place.average.copy_(place.of_model);
      place.of_model.copy_(place.own);
    }
  } catch (const std::exception& error) {
    TORCH_WARN("the model keeps averaged weights: ", error_text_within_line(error));
  }
}

std::string problem_with_average(const AveragedWeights& average, const torch::nn::Module& model) {
  const auto tensors = averaged_tensors(model);
  for (const auto& [name, tensor] : tensors) {
    const auto found = average.find(name);
    if (found == average.end()) return "'average' lacks '" + name + "'";
    const auto& there = found->second;
    if (there.sizes() == tensor.sizes() && there.scalar_type() == tensor.scalar_type()) continue;
    std::ostringstream text;
    text << "'average' has '" << name << "' as " << there.scalar_type() << " " << there.sizes()
         << ", expected " << tensor.scalar_type() << " " << tensor.sizes();
    return text.str();
  }
  if (average.size() == tensors.size()) return {};
  return "'average' has " + std::to_string(average.size()) + " tensors, expected " +
         std::to_string(tensors.size());
}

}  // namespace adaact
