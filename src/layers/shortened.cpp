#include "layers/shortened.h"

#include <limits>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/plain_layers.h"
#include "layers/shortened_cuda.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor every(std::int64_t stride, const torch::Tensor& images) {
  // The slices go to the end, wherever that is, so that a trace of them takes images of any size.
  constexpr auto kEnd = std::numeric_limits<std::int64_t>::max();
  return images.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
}

torch::Tensor plainly_shortened(const torch::Tensor& images, std::int64_t stride,
                                std::int64_t new_channels) {
  const auto before = new_channels / 2;
  return torch::constant_pad_nd(every(stride, images), {0, 0, 0, 0, before, new_channels - before});
}

class Shortened : public torch::autograd::Function<Shortened> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& images,
                               std::int64_t stride, std::int64_t new_channels) {
    context->saved_data["shape"] = images.sizes().vec();
    context->saved_data["stride"] = stride;
    context->saved_data["before"] = new_channels / 2;
    return shorten_cuda(images, stride, new_channels / 2, new_channels - new_channels / 2);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto shape = context->saved_data["shape"].toIntVector();
    const auto stride = context->saved_data["stride"].toInt();
    const auto before = context->saved_data["before"].toInt();
    const auto& gradient = gradients[0];
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      const auto of_images = torch::zeros(shape, gradient.options());
      every(stride, of_images).copy_(gradient.narrow(1, before, shape[1]));
      return {of_images, torch::Tensor(), torch::Tensor()};
    }
    return {lengthen_cuda(gradient.contiguous(torch::MemoryFormat::ChannelsLast), shape, stride,
                          before),
            torch::Tensor(), torch::Tensor()};
  }
};

bool can_be_shortened_at_once(const torch::Tensor& images, std::int64_t new_channels) {
  return may_be_fused(images) && images.dim() == 4 && has_kernels(images.scalar_type()) &&
         images.is_contiguous(torch::MemoryFormat::ChannelsLast) && images.numel() > 0 &&
         images.numel() / images.size(1) * (images.size(1) + new_channels) <=
             std::numeric_limits<std::int32_t>::max();
}

}  // namespace

torch::Tensor shortened(const torch::Tensor& images, std::int64_t stride,
                        std::int64_t new_channels) {
  if (!can_be_shortened_at_once(images, new_channels))
    return plainly_shortened(images, stride, new_channels);
  return Shortened::apply(images, stride, new_channels);
}

}  // namespace adaact
