#pragma once

#include <string>
#include <utility>
#include <vector>

#include <adaact/train/averaged_weights.h>
#include <torch/nn/module.h>

namespace adaact {

/// A moving average of a model's parameters over steps: average ← decay · average + (1 − decay) · parameter. Buffers of
/// real numbers, such as the running averages of a normalisation, are averaged likewise: those of the last steps belong
/// to the last weights. Counts are the model's own.
///
/// The tensors are in `values`, and stay there: the same memory is changed by a few launches for all of them,
/// which nobody waits for.
class WeightAverage {
 public:
  /// Goes on with what is in `values`, or begins with the parameters where they are empty.
  WeightAverage(const torch::nn::Module& model, double decay, AveragedWeights& values);

  /// Brings the average up to date; to be called after each step.
  void update();

 private:
  double decay_;
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> averages_;
};

/// While it lives a model has averaged weights, and the average those of the model. Nothing happens where there is
/// no average.
class AverageInPlace {
 public:
  AverageInPlace(const torch::nn::Module& model, const AveragedWeights& average);
  ~AverageInPlace() { exchange(); }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  void exchange();

  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs_;
};

/// "'average' lacks 'fc.weight'" of one that is not of this model; empty where it is.
std::string problem_with_average(const AveragedWeights& average, const torch::nn::Module& model);

}  // namespace adaact
