#include "layers/feature_buffer.h"

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/copy_channels_cuda.h"
#include "layers/layout.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Memory in a struct, so that a function of autograd's takes it for no variable.
struct Memory {
  torch::Tensor all;
};

void copy_images(const torch::Tensor& from, const torch::Tensor& to) {
  if (is_laid_out_by_channels(from, /*channels_last=*/true) &&
      is_laid_out_by_channels(to, /*channels_last=*/true)) {
    copy_channels_cuda(from, to);
  } else {
    to.copy_(from);
  }
}

/// Writes channels before those that are there already, and gives back both. Memory that the features before
/// share is written to without their knowing: they have other channels of it.
class Written : public torch::autograd::Function<Written> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& added,
                               const c10::optional<torch::Tensor>& features, const Memory& memory) {
    const auto before = features ? features->size(1) : 0;
    const auto channels = added.size(1);
    const auto begin = memory.all.size(1) - before - channels;
    copy_images(added, memory.all.narrow(1, begin, channels));
    context->saved_data["channels"] = channels;
    context->saved_data["before"] = before;
    return memory.all.narrow(1, begin, channels + before).variable_data();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto channels = context->saved_data["channels"].toInt();
    const auto before = context->saved_data["before"].toInt();
    const auto& gradient = gradients[0];
    const auto format = is_laid_out_by_channels(gradient, /*channels_last=*/true)
                            ? torch::MemoryFormat::ChannelsLast
                            : torch::MemoryFormat::Contiguous;
    if (before == 0) return {gradient.contiguous(format), torch::Tensor(), torch::Tensor()};
    const auto of_added = gradient.narrow(1, 0, channels);
    auto own = of_added;
    if (torch::GradMode::is_enabled()) {  // to be differentiated once more
      own = of_added.contiguous(format);
    } else {
      own = torch::empty(of_added.sizes(), gradient.options(), format);
      copy_images(of_added, own);
    }
    return {own, gradient.narrow(1, channels, before), torch::Tensor()};
  }
};

}  // namespace

FeatureBuffer::FeatureBuffer(const torch::Tensor& first, std::int64_t more, bool training)
    : features_(first) {
  const bool channels_last = is_laid_out_by_channels(first, /*channels_last=*/true);
  if (!training || !may_be_fused(first) || !has_kernels(first.scalar_type()) ||
      !(channels_last || is_laid_out_by_channels(first, /*channels_last=*/false))) {
    return;
  }
  auto shape = first.sizes().vec();
  shape[1] += more;
  memory_ = torch::empty(
      shape, first.options(),
      channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous);
  features_ = Written::apply(first, c10::optional<torch::Tensor>(), Memory{memory_});
}

void FeatureBuffer::add(const torch::Tensor& added, const torch::Tensor& around) {
  if (memory_.defined() && added.scalar_type() == memory_.scalar_type()) {
    features_ = Written::apply(added, c10::optional<torch::Tensor>(around), Memory{memory_});
  } else {
    features_ = torch::cat({added, around}, 1);
  }
}

}  // namespace adaact
