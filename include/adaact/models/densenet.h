#pragma once

#include <memory>
#include <vector>

#include <adaact/models/model.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace adaact {

struct DenseNetOptions {
  int64_t channels = 3;
  int64_t classes = 100;
  int64_t growth = 32;  // channels that each layer adds
  std::vector<int64_t> blocks{6, 12, 24, 16};
  double compression = 0.5;  // of channels, in each transition
};

class DenseNetStage;

/// DenseNet-BC for small images: a 3×3 stem that keeps their size, and no pooling before the first
/// dense block (Huang et al., https://arxiv.org/abs/1608.06993).
class DenseNet : public Model {
 public:
  explicit DenseNet(const DenseNetOptions& options);

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  torch::nn::Conv2d conv1_{nullptr};
  std::vector<std::shared_ptr<DenseNetStage>>
      stages_;  // dense blocks and the transitions between them
  torch::nn::BatchNorm2d bn_{nullptr};
  torch::nn::Linear linear_{nullptr};
};

}  // namespace adaact
