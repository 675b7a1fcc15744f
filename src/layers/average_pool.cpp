#include "layers/average_pool.h"

#include <limits>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/average_pool_cuda.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class AveragePool : public torch::autograd::Function<AveragePool> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& images,
                               std::int64_t size) {
    context->saved_data["shape"] = images.sizes().vec();
    context->saved_data["size"] = size;
    return average_pool_forward_cuda(images, size);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto shape = context->saved_data["shape"].toIntVector();
    const auto size = context->saved_data["size"].toInt();
    const auto& gradient = gradients[0];
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      const auto images = torch::zeros({}, gradient.options()).expand(shape);
      return {at::avg_pool2d_backward(gradient, images, {size, size}, {size, size}, {0, 0},
                                      /*ceil_mode=*/false, /*count_include_pad=*/true,
                                      /*divisor_override=*/{}),
              torch::Tensor()};
    }
    return {average_pool_backward_cuda(gradient.contiguous(torch::MemoryFormat::ChannelsLast),
                                       shape, size),
            torch::Tensor()};
  }
};

bool can_be_pooled(const torch::Tensor& images, std::int64_t size) {
  return may_be_fused(images) && images.dim() == 4 && has_kernels(images.scalar_type()) &&
         images.is_contiguous(torch::MemoryFormat::ChannelsLast) && images.size(2) >= size &&
         images.size(3) >= size && images.numel() > 0 &&
         images.numel() <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

torch::Tensor average_pool(const torch::Tensor& images, std::int64_t size) {
  if (!can_be_pooled(images, size)) return torch::avg_pool2d(images, size);
  return AveragePool::apply(images, size);
}

}  // namespace adaact
