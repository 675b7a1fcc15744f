#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <adaact/io/safetensors.h>
#include <adaact/models/model.h>
#include <adaact/observe/layer_map.h>

namespace adaact {

/// Parameters and buffers under their names, in the order of Python's state_dict(): those of a
/// module, then those of its children.
NamedTensors state_tensors(const torch::nn::Module& module);

/// Writes all state of a model as safetensors that Python reads. Replaces the file atomically.
void save_weights(const torch::nn::Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata = {});

/// Reads what save_weights() wrote, or the model's part of a run's checkpoint.
TensorFile read_weights(const std::filesystem::path& path);

struct LoadOptions {
  /// A head for another number of classes is no error: the model keeps its own.
  bool replace_head = false;
};

struct LoadReport {
  std::vector<std::string> replaced;            // state of the head that was not loaded
  std::map<std::string, std::string> metadata;  // what the file says besides tensors
};

/// Reads what save_weights() wrote, a run's checkpoint, or a Python model exported under the same state names, in
/// whatever floating-point dtype. Tensors that are missing, unexpected or of another shape are one
/// error that names the first five of each kind, and the model is then as it was. `num_batches_tracked` may be absent.
LoadReport load_weights(Model& model, const std::filesystem::path& path,
                        const LoadOptions& options = {});
/// load_weights() from a file that was read already; errors call it `source`.
LoadReport load_weights(Model& model, TensorFile file, const std::string& source,
                        const LoadOptions& options = {});

}  // namespace adaact
