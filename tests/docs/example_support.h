#pragma once

// What the examples of docs/optimizers.md are compiled with.

#include <iostream>
#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

inline double loss_of(torch::nn::Sequential& model, const torch::Tensor& images,
                      const torch::Tensor& labels) {
  const torch::NoGradGuard no_grad;
  return torch::cross_entropy_loss(model->forward(images), labels).item<double>();
}
