#pragma once

#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace adaact {

/// An image classifier: images (N, channels, height, width) in, logits (N, classes) out.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  /// The state name of the last layer, whose rows are the classes: "fc".
  const std::string& head_name() const noexcept { return head_name_; }

 protected:
  explicit Model(std::string head_name) : head_name_(std::move(head_name)) {}

 private:
  std::string head_name_;
};

}  // namespace adaact
