#pragma once

#include <vector>

#include <adaact/models/model.h>
#include <torch/nn/modules/linear.h>

namespace adaact {

/// Linear layers fc1, fc2, … over the pixels, with ReLU between them. Without hidden layers it is
/// logistic regression.
class Mlp : public Model {
 public:
  Mlp(int64_t channels, int64_t image_size, const std::vector<int64_t>& hidden, int64_t classes);

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  int64_t channels_;
  int64_t image_size_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace adaact
