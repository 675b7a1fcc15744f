#pragma once

// What the two passes of batch normalisation share on a GPU.

#include <type_traits>

#include <torch/types.h>

#include "layers/channels.cuh"
#include "layers/layout.h"

namespace adaact::channels {

/// What an element of a channel is multiplied by and what is added.
template <typename Sum>
struct ChannelScalars {
  Sum mean, scale, bias;
};

template <typename Sum>
__device__ Sum normalised(Sum x, const ChannelScalars<Sum>& channel) {
  return fma(x - channel.mean, channel.scale, channel.bias);
}

inline Shape shape_of(const torch::Tensor& x) {
  const bool channels_last = is_laid_out_by_channels(x, /*channels_last=*/true);
  return {x.size(0), x.size(1), x.size(2) * x.size(3), channels_last};
}

template <typename Scalar>
Values<const Scalar> read(const torch::Tensor& tensor, const Shape& shape) {
  if (!tensor.defined()) return {};
  TORCH_INTERNAL_ASSERT(is_laid_out_by_channels(tensor, shape.channels_last));
  return {tensor.data_ptr<Scalar>(), distance_of_rows(tensor, shape.channels_last)};
}

template <typename Scalar>
Values<Scalar> write(const torch::Tensor& tensor, const Shape& shape) {
  const auto values = read<Scalar>(tensor, shape);
  return {const_cast<Scalar*>(values.data), values.leading};
}

/// Whether all of these tensors can be gone through in runs.
template <int kWidth, typename... Scalar>
bool can_be_read_in_runs(const Shape& shape, const Values<Scalar>&... values) {
  const auto together = shape.channels_last ? shape.channels : shape.pixels;
  return together % kWidth == 0 && ((values.leading % kWidth == 0) && ...) &&
         many_tensors::aligned_for_runs<kWidth>(values.data...);
}

/// Calls launch(channels_last, width) with both as compile-time constants.
template <typename Scalar, typename Launch>
void with_layout(const Shape& shape, bool in_runs, const Launch& launch) {
  using Yes = std::true_type;
  using No = std::false_type;
  using InRuns = std::integral_constant<int, kRun<Scalar>>;
  using OneByOne = std::integral_constant<int, 1>;
  if (shape.channels_last) {
    in_runs ? launch(Yes(), InRuns()) : launch(Yes(), OneByOne());
  } else {
    in_runs ? launch(No(), InRuns()) : launch(No(), OneByOne());
  }
}

/// Memory for the partial sums of blocks.
inline torch::Tensor empty_partial_sums(const Extent& extent, const torch::Tensor& like) {
  return torch::empty({kSums, extent.parts, extent.channels}, like.options());
}

}  // namespace adaact::channels
