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
  OutputGradientListener listen_to_output(const LayerUse& use,
                                          const torch::Tensor& /*input*/) override {
    return [this, use](const OutputGradient& arrived) {
      gradients.push_back({use, arrived.gradient.clone()});
      passes.push_back(arrived);
    };
  }
  void on_unrecorded_use(const LayerUse& use) override { unrecorded.push_back(use); }

  std::vector<Recorded> inputs;
  std::vector<Recorded> gradients;
  std::vector<OutputGradient> passes;  // that brought them
  std::vector<LayerUse> unrecorded;
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
