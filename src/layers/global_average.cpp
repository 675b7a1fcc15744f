#include "layers/global_average.h"

#include <limits>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/global_average_cuda.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor mean_of_pixels(const torch::Tensor& x) { return x.mean(at::IntArrayRef{2, 3}); }

class AveragedPixels : public torch::autograd::Function<AveragedPixels> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x) {
    context->saved_data["height"] = x.size(2);
    context->saved_data["width"] = x.size(3);
    context->saved_data["channels_last"] = !x.is_contiguous();
    return mean_of_pixels(x);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto height = context->saved_data["height"].toInt();
    const auto width = context->saved_data["width"].toInt();
    const auto& gradient = gradients[0];
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      const auto share = gradient / static_cast<double>(height * width);
      return {share.unsqueeze(2).unsqueeze(3).expand({-1, -1, height, width})};
    }
    return {global_average_backward_cuda(gradient.contiguous(), height, width,
                                         context->saved_data["channels_last"].toBool())};
  }
};

}  // namespace

torch::Tensor global_average(const torch::Tensor& x) {
  if (!may_be_fused(x) || !torch::GradMode::is_enabled() || !x.requires_grad() || x.dim() != 4 ||
      x.numel() == 0 || x.numel() > std::numeric_limits<std::int32_t>::max() ||
      !has_kernels(x.scalar_type()) ||
      !(x.is_contiguous() || x.is_contiguous(torch::MemoryFormat::ChannelsLast))) {
    return mean_of_pixels(x);
  }
  return AveragedPixels::apply(x);
}

}  // namespace adaact
