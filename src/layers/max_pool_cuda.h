#pragma once

// The maximum of windows on a GPU. Tensors are (N, C, H, W), dense in LibTorch's own order or channels last, with
// elements and fewer than 2³¹ of them.

#include <cstdint>

#include <torch/types.h>

namespace adaact {

/// Square windows, `stride` apart; the image goes on for `padding` elements that are never a maximum.
struct PoolWindow {
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;  // kernel / 2 at most

  /// How many windows there are along a side of this size.
  std::int64_t count(std::int64_t size) const { return (size + 2 * padding - kernel) / stride + 1; }
};

/// Kernels up to this one: a byte tells an element of such a window.
constexpr std::int64_t kLargestPoolKernel = 15;

struct Pooled {
  torch::Tensor output;
  torch::Tensor
      winners;  // kByte, row · kernel + column within the window; not defined if not wanted
};

/// The first of equal maxima wins. A value that is not a number wins over all before it, as it does in
/// LibTorch.
Pooled max_pool_forward_cuda(const torch::Tensor& x, const PoolWindow& window, bool with_winners);

/// The gradient of x, whose images are height × width, from that of the output, which lies in memory as the winners
/// do. An element adds up the gradients of the windows that it won, from the first to the last.
torch::Tensor max_pool_backward_cuda(const torch::Tensor& gradient, const torch::Tensor& winners,
                                     const PoolWindow& window, std::int64_t height,
                                     std::int64_t width);

}  // namespace adaact
