#pragma once

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// The features of a dense block, which every layer adds some channels to. New ones come before the others, as
/// torch::cat({added, features}, 1) would put them. On a GPU, in training, they are written to their place in
/// memory for the whole block, and nothing that is there is copied.
class FeatureBuffer {
 public:
  /// Begins with the features `first` and has room for `more` channels.
  FeatureBuffer(const torch::Tensor& first, std::int64_t more, bool training);

  const torch::Tensor& features() const noexcept { return features_; }

  /// `around` is features(), or what came of it on its way around a layer.
  void add(const torch::Tensor& added, const torch::Tensor& around);

 private:
  torch::Tensor features_;
  torch::Tensor memory_;  // not defined where features are concatenated
};

}  // namespace adaact
