#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <adaact/observe/layer_map.h>
#include <torch/optim/optimizer.h>

namespace adaact {

/// Those parameters of a model that are in an optimizer's groups.
class ManagedParameters {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;

  explicit ManagedParameters(LayerMap model);

  /// Reads the groups anew, or throws and leaves everything as it was. `check` is asked of every parameter
  /// with its group.
  void index(const Groups& groups, const std::string& owner,
             const std::function<void(const NamedParameter&, std::size_t)>& check);

  const LayerMap& model() const noexcept { return model_; }
  /// Indices into model().parameters(), each once.
  const std::vector<std::size_t>& indices() const noexcept { return indices_; }
  /// By parameter of the model.
  const std::optional<std::size_t>& group_of(std::size_t index) const { return group_of_[index]; }

  bool is_trained(std::size_t index) const;
  /// Those of indices() that have a gradient and may change.
  std::vector<std::size_t> trained() const;

 private:
  LayerMap model_;
  std::vector<std::size_t> indices_;
  std::vector<std::optional<std::size_t>> group_of_;
};

}  // namespace adaact
