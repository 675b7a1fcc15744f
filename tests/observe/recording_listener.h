#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include <adaact/observe/observer.h>

namespace adaact::testing {

struct Recorded {
  LayerUse use;
  torch::Tensor input;
};

/// Keeps what it is told.
class RecordingListener : public Listener {
 public:
  void on_input(const LayerUse& use, const torch::Tensor& input) override {
    inputs.push_back({use, input.clone()});
  }
  bool wants_output_gradient(const LayerUse& /*use*/) override { return true; }
  void on_output_gradient(const LayerUse& use, const torch::Tensor& gradient) override {
    gradients.push_back({use, gradient.clone()});
  }

  std::vector<Recorded> inputs;
  std::vector<Recorded> gradients;
};

/// An observer of a model and what it saw.
class Watch {
 public:
  explicit Watch(torch::nn::Module& module) : Watch(LayerMap(module)) {}
  explicit Watch(LayerMap map) : observer(std::move(map), listener) {}

  const std::vector<Recorded>& inputs() const { return listener->inputs; }
  /// Names of the weights used, in order.
  std::vector<std::string> weights() const {
    std::vector<std::string> names;
    for (const auto& seen : inputs()) {
      names.push_back(observer.map().parameters()[seen.use.weight].name);
    }
    return names;
  }

  std::shared_ptr<RecordingListener> listener = std::make_shared<RecordingListener>();
  Observer observer;
};

using Names = std::vector<std::string>;

}  // namespace adaact::testing
