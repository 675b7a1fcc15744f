#include "layers/max_pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/max_pool_cuda.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the backward pass knows of the forward one beside the winners.
struct PooledImages {
  PoolWindow window;
  std::int64_t height = 0;
  std::int64_t width = 0;

  void save_to(AutogradContext* context) const {
    context->saved_data["pooled"] =
        std::vector<std::int64_t>{window.kernel, window.stride, window.padding, height, width};
  }
  static PooledImages of(AutogradContext* context) {
    const auto saved = context->saved_data["pooled"].toIntVector();
    return {{saved[0], saved[1], saved[2]}, saved[3], saved[4]};
  }
};

/// (N, C, windows) kLong: which element of its image won.
torch::Tensor places_of(const torch::Tensor& winners, const PooledImages& images) {
  const auto& window = images.window;
  const auto within = winners.to(torch::kLong);
  const auto first = [&](int dim) {
    return torch::arange(winners.size(dim), within.options()) * window.stride - window.padding;
  };
  const auto row_within = within.floor_divide(window.kernel);
  const auto row = first(2).unsqueeze(1) + row_within;
  const auto column = first(3) + within - row_within * window.kernel;
  return (row * images.width + column).flatten(2);
}

/// The backward pass as a function of the output's gradient, in which it is linear. Its own gradient is ordinary
/// operators, so that there may be more of them.
class MaxPoolGradient : public torch::autograd::Function<MaxPoolGradient> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& gradient,
                               const torch::Tensor& winners, const PooledImages& images) {
    context->save_for_backward({winners});
    images.save_to(context);
    return max_pool_backward_cuda(gradient, winners, images.window, images.height, images.width);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto winners = context->get_saved_variables()[0];
    const auto places = places_of(winners, PooledImages::of(context));
    return {gradients[0].flatten(2).gather(2, places).view(winners.sizes()), torch::Tensor(),
            torch::Tensor()};
  }
};

class FusedMaxPool : public torch::autograd::Function<FusedMaxPool> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const PoolWindow& window) {
    const auto pooled = max_pool_forward_cuda(x, window, /*with_winners=*/true);
    context->save_for_backward({pooled.winners});
    PooledImages{window, x.size(2), x.size(3)}.save_to(context);
    return pooled.output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto winners = context->get_saved_variables()[0];
    const auto images = PooledImages::of(context);
    const auto gradient =
        gradients[0].contiguous(winners.is_contiguous() ? torch::MemoryFormat::Contiguous
                                                        : torch::MemoryFormat::ChannelsLast);
    if (torch::GradMode::is_enabled()) {
      return {MaxPoolGradient::apply(gradient, winners, images), torch::Tensor()};
    }
    return {max_pool_backward_cuda(gradient, winners, images.window, images.height, images.width),
            torch::Tensor()};
  }
};

bool has_pool_kernel(const torch::Tensor& x, const PoolWindow& window) {
  if (!may_be_fused(x) || x.dim() != 4 || x.numel() == 0 || !has_kernels(x.scalar_type()) ||
      !(x.is_contiguous() || x.is_contiguous(torch::MemoryFormat::ChannelsLast))) {
    return false;
  }
  const auto fits = [&](std::int64_t size) { return size + 2 * window.padding >= window.kernel; };
  if (window.kernel < 1 || window.kernel > kLargestPoolKernel || window.stride < 1 ||
      window.padding < 0 || 2 * window.padding > window.kernel || !fits(x.size(2)) ||
      !fits(x.size(3))) {
    return false;
  }
  const auto windows = x.size(0) * x.size(1) * window.count(x.size(2)) * window.count(x.size(3));
  return std::max(x.numel(), windows) <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

torch::Tensor max_pool(const torch::Tensor& x, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding) {
  const PoolWindow window{kernel, stride, padding};
  if (!has_pool_kernel(x, window)) return torch::max_pool2d(x, kernel, stride, padding);
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) {
    return max_pool_forward_cuda(x, window, /*with_winners=*/false).output;
  }
  return FusedMaxPool::apply(x, window);
}

}  // namespace adaact
