#pragma once

#include <adaact/models/model.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace adaact {

/// LeNet-5 with ReLU and max pooling, for images of 32×32 or, with the first convolution padded by
/// 2, of 28×28.
class LeNet5 : public Model {
 public:
  LeNet5(int64_t channels, int64_t image_size, int64_t classes);

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  int64_t channels_;
  int64_t image_size_;
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr}, fc3_{nullptr};
};

}  // namespace adaact
