#pragma once

// What the tests of the examples in docs/optimizers.md need besides. No header that an example needs: the page
// has to name those.

#include <gtest/gtest.h>

inline double loss_of(torch::nn::Sequential& model, const torch::Tensor& images,
                      const torch::Tensor& labels) {
  const torch::NoGradGuard no_grad;
  return torch::cross_entropy_loss(model->forward(images), labels).item<double>();
}
