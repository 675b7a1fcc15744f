#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <adaact/models/weights.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

namespace adaact::testing {

/// Descriptions of other people's models: state names and shapes in order, and logits under weights
/// that a formula gives. One file per model, beside this one.
inline std::filesystem::path golden_models_folder() { return ADAACT_MODEL_GOLDEN_DEFAULT_DIR; }

inline std::vector<std::string> golden_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_models_folder())) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Ordered, because the order of the state is part of the description.
inline nlohmann::ordered_json golden_model(const std::string& name) {
  std::ifstream file(golden_models_folder() / (name + ".json"));
  return nlohmann::ordered_json::parse(file);
}

inline std::uint32_t fnv1a_32(const std::string& text) {
  std::uint32_t hash = 2166136261U;
  for (const auto character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619U;
  }
  return hash;
}

inline bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The formula: s_i = sin(0.37·i + (h mod 1000)/100), h the hash of the name, scaled to what the
/// tensor is.
inline void fill_with_golden_values(const torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_tensors(model)) {
    if (ends_with(name, "num_batches_tracked")) continue;
    const auto phase = static_cast<double>(fnv1a_32(name) % 1000) / 100.0;
    auto s = torch::arange(tensor.numel(), torch::kFloat64).mul_(0.37).add_(phase).sin_();
    if (tensor.dim() >= 2) {
      s *= 1.2 * std::sqrt(2.0 / static_cast<double>(tensor[0].numel()));
    } else {
      s *= 0.1;
      if (ends_with(name, "running_var") || ends_with(name, "weight")) s += 1.0;
    }
    tensor.copy_(s.view(tensor.sizes()));
  }
}

}  // namespace adaact::testing
