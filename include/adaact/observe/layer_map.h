#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace adaact {

/// What a module that owns parameters is. Only the first three have an input whose second moment
/// can scale their weight's update.
enum class LayerKind : std::uint8_t {
  Linear,
  Convolution,
  PackedProjection,  // torch::nn::MultiheadAttention's own weights
  TransposedConvolution,
  Recurrent,
  Normalization,
  Embedding,
  Other,  // a user's module, or nothing known: recognised when it is first used
};

inline bool is_observable(LayerKind kind) {
  return kind == LayerKind::Linear || kind == LayerKind::Convolution ||
         kind == LayerKind::PackedProjection;
}

/// A module that owns parameters directly.
struct Layer {
  std::string name;  // "encoder.fc1"; empty for the root
  LayerKind kind = LayerKind::Other;
  std::weak_ptr<torch::nn::Module>
      module;                            // empty where unknown (TorchScript, a root on the stack)
  std::vector<std::size_t> parameters;   // indices into LayerMap::parameters()
  std::vector<std::string> local_names;  // of the same parameters: "weight", "bias"
  std::function<bool()> training_flag;   // in the place of a module's own, of a DescribedLayer

  /// Whether its input counts: the module is in training mode, or nobody knows.
  bool is_training() const;
};

struct NamedParameter {
  std::string name;  // "encoder.fc1.weight"
  torch::Tensor tensor;
  std::size_t layer = 0;            // index into LayerMap::layers()
  bool is_layer_weight = false;     // a weight that must show up as one once its layer is used
  std::vector<std::size_t> biases;  // for a weight: parameters that are its bias, by name
};

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// A layer of a model in another language, such as Python.
struct DescribedLayer {
  std::string name;
  LayerKind kind = LayerKind::Other;
  NamedTensors parameters;              // "weight", "bias"
  std::function<bool()> training_flag;  // none: always in training; may be called from any thread
};

/// The named parameters of a torch::jit::Module (or anything with the same interface).
template <typename ScriptModule>
NamedTensors script_parameters(const ScriptModule& module) {
  NamedTensors named;
  for (const auto& parameter : module.named_parameters()) {
    named.emplace_back(parameter.name, parameter.value);
  }
  return named;
}

/// The parameters of a model under their names, and the layers they belong to. Walks the model once
/// and changes nothing in it. A parameter reached under two names keeps the first.
class LayerMap {
 public:
  // Both may be given where a LayerMap is expected, as to the constructors of optimizers.
  LayerMap(torch::nn::Module& module);  // NOLINT(google-explicit-constructor)
  /// For what is no torch::nn::Module: layers are told apart by name ("fc.weight", "fc.bias").
  LayerMap(const NamedTensors& named_parameters);  // NOLINT(google-explicit-constructor)
  /// The map of a model whose layers the caller knows.
  explicit LayerMap(const std::vector<DescribedLayer>& layers);

  const std::vector<Layer>& layers() const noexcept { return layers_; }
  const std::vector<NamedParameter>& parameters() const noexcept { return parameters_; }

  /// The parameters without their names.
  std::vector<torch::Tensor> tensors() const;

  /// Index of a parameter by identity, where it is one of this model's.
  std::optional<std::size_t> find(const torch::Tensor& parameter) const;

 private:
  std::size_t add_layer(Layer layer);
  void add(const std::string& layer_name, const std::string& parameter_name,
           const torch::Tensor& tensor, std::size_t layer);
  void add_named(const std::string& local_name, const torch::Tensor& tensor, std::size_t layer);
  void pair_biases();

  std::vector<Layer> layers_;
  std::vector<NamedParameter> parameters_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> by_identity_;
};

}  // namespace adaact
