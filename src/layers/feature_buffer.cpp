#include "layers/feature_buffer.h"

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/layout.h"
#include "layers/plain_layers.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// No variable of autograd's.
struct Memory {
  torch::Tensor all;
};

/// Writes channels before those that are there already, and gives back both. Memory that the features before
/// share is written to without their knowing: they have other channels of it.
class Written : public torch::autograd::Function<Written> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& added,
                               const c10::optional<torch::Tensor>& features, const Memory& memory) {
    const auto before = features ? features->size(1) : 0;
    const auto channels = added.size(1);
    const auto begin = memory.all.size(1) - before - channels;
    memory.all.narrow(1, begin, channels).copy_(added);
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
    return {gradient.narrow(1, 0, channels).contiguous(format),
            before > 0 ? gradient.narrow(1, channels, before) : torch::Tensor(), torch::Tensor()};
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
