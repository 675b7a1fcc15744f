#include <adaact/observe/layer_map.h>

#include <algorithm>
#include <utility>

#include <torch/nn.h>

namespace adaact {
namespace {

template <typename... Modules>
bool is_any(torch::nn::Module& module) {
  return ((module.as<Modules>() != nullptr) || ...);
}

LayerKind kind_of(torch::nn::Module& module) {
  using namespace torch::nn;
  if (is_any<LinearImpl>(module)) return LayerKind::Linear;
  if (is_any<Conv1dImpl, Conv2dImpl, Conv3dImpl>(module)) return LayerKind::Convolution;
  if (is_any<MultiheadAttentionImpl>(module)) return LayerKind::PackedProjection;
  if (is_any<ConvTranspose1dImpl, ConvTranspose2dImpl, ConvTranspose3dImpl>(module)) {
    return LayerKind::TransposedConvolution;
  }
  if (is_any<RNNImpl, LSTMImpl, GRUImpl, RNNCellImpl, LSTMCellImpl, GRUCellImpl>(module)) {
    return LayerKind::Recurrent;
  }
  if (is_any<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl,
             InstanceNorm2dImpl, InstanceNorm3dImpl, LayerNormImpl, GroupNormImpl>(module)) {
    return LayerKind::Normalization;
  }
  if (is_any<EmbeddingImpl, EmbeddingBagImpl>(module)) return LayerKind::Embedding;
  return LayerKind::Other;
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

bool Layer::is_training() const {
  if (training_flag) return training_flag();
  const auto known = module.lock();
  return known == nullptr || known->is_training();
}

LayerMap::LayerMap(torch::nn::Module& module) {
  // Recursion by hand: Module::named_modules() refuses a root that lives on the stack.
  auto walk = [this](auto&& self, torch::nn::Module& current, const std::string& name) -> void {
    const auto own = current.named_parameters(/*recurse=*/false);
    if (!own.is_empty()) {
      const auto layer =
          add_layer({name, kind_of(current), current.weak_from_this(), {}, {}, nullptr});
      for (const auto& parameter : own) {
        if (parameter.value().defined()) add(name, parameter.key(), parameter.value(), layer);
      }
    }
    for (const auto& child : current.named_children()) {
      self(self, *child.value(), joined(name, child.key()));
    }
  };
  walk(walk, module, "");
  pair_biases();
}

LayerMap::LayerMap(const NamedTensors& named_parameters) {
  for (const auto& [name, tensor] : named_parameters) {
    const auto dot = name.rfind('.');
    const std::string layer_name = dot == std::string::npos ? "" : name.substr(0, dot);
    const auto known = std::find_if(layers_.begin(), layers_.end(),
                                    [&](const Layer& layer) { return layer.name == layer_name; });
    const auto layer = known == layers_.end()
                           ? add_layer({layer_name, LayerKind::Other, {}, {}, {}, nullptr})
                           : static_cast<std::size_t>(known - layers_.begin());
    add_named(dot == std::string::npos ? name : name.substr(dot + 1), tensor, layer);
  }
  pair_biases();
}

LayerMap::LayerMap(const std::vector<DescribedLayer>& layers) {
  for (const auto& described : layers) {
    const auto layer =
        add_layer({described.name, described.kind, {}, {}, {}, described.training_flag});
    for (const auto& [name, tensor] : described.parameters) add_named(name, tensor, layer);
  }
  pair_biases();
}

std::size_t LayerMap::add_layer(Layer layer) {
  layers_.push_back(std::move(layer));
  return layers_.size() - 1;
}

/// Of a list that somebody else made: what it holds is not known to be right.
void LayerMap::add_named(const std::string& local_name, const torch::Tensor& tensor,
                         std::size_t layer) {
  const auto name = joined(layers_[layer].name, local_name);
  TORCH_CHECK(tensor.defined(), "adaact: parameter '", name, "' is an undefined tensor");
  TORCH_CHECK(std::none_of(parameters_.begin(), parameters_.end(),
                           [&name](const auto& other) { return other.name == name; }),
              "adaact: two parameters are named '", name, "'");
  add(layers_[layer].name, local_name, tensor, layer);
}

void LayerMap::add(const std::string& layer_name, const std::string& parameter_name,
                   const torch::Tensor& tensor, std::size_t layer) {
  const bool is_layer_weight =
      is_observable(layers_[layer].kind) && ends_with(parameter_name, "weight");
  const auto known = find(tensor);
  const auto index = known.value_or(parameters_.size());
  if (!known) {
    parameters_.push_back({joined(layer_name, parameter_name), tensor, layer, is_layer_weight, {}});
    by_identity_.emplace(tensor.unsafeGetTensorImpl(), index);
  } else if (is_layer_weight && !parameters_[index].is_layer_weight) {
    // Tied, as an embedding and its output layer: what matters is the layer that has an input.
    parameters_[index].is_layer_weight = true;
    parameters_[index].layer = layer;
  }
  layers_[layer].parameters.push_back(index);
  layers_[layer].local_names.push_back(parameter_name);
}

void LayerMap::pair_biases() {
  const std::string suffix = "weight";
  for (const auto& layer : layers_) {
    for (std::size_t w = 0; w < layer.parameters.size(); ++w) {
      const auto& weight_name = layer.local_names[w];
      if (!ends_with(weight_name, suffix)) continue;
      const auto stem = weight_name.substr(0, weight_name.size() - suffix.size());
      for (std::size_t b = 0; b < layer.parameters.size(); ++b) {
        // "weight" goes with "bias", "in_proj_weight" with "in_proj_bias"; attention with separate
        // projections keeps all three biases in one "in_proj_bias".
        const bool same_stem = layer.local_names[b] == stem + "bias";
        const bool packed =
            layer.kind == LayerKind::PackedProjection && layer.local_names[b] == "in_proj_bias";
        if (parameters_[layer.parameters[b]].tensor.dim() == 1 && (same_stem || packed)) {
          parameters_[layer.parameters[w]].biases.push_back(layer.parameters[b]);
        }
      }
    }
  }
}

std::vector<torch::Tensor> LayerMap::tensors() const {
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : parameters_) tensors.push_back(parameter.tensor);
  return tensors;
}

std::optional<std::size_t> LayerMap::find(const torch::Tensor& parameter) const {
  const auto found = by_identity_.find(parameter.unsafeGetTensorImpl());
  if (found == by_identity_.end()) return std::nullopt;
  return found->second;
}

}  // namespace adaact
