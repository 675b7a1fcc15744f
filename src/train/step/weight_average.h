#pragma once

#include <string>
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

/// While it lives a model has averaged weights; afterwards its own again, and the average has what the model had then.
/// Nothing happens where there is no average.
class AverageInPlace {
 public:
  AverageInPlace(const torch::nn::Module& model, const AveragedWeights& average);
  /// Goes back by copies alone. What they may fail by, an error of the device, is a warning: who has thrown meanwhile is
  /// to be heard.
  ~AverageInPlace();
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  struct Place {
    torch::Tensor of_model;
    torch::Tensor average;
    torch::Tensor own;  // what the model had, and will have
  };
  std::vector<Place> places_;
};

/// "'average' lacks 'fc.weight'" of one that is not of this model; empty where it is.
std::string problem_with_average(const AveragedWeights& average, const torch::nn::Module& model);

}  // namespace adaact
