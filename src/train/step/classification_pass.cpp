#include "train/step/classification_pass.h"

#include <algorithm>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/cross_entropy_cuda.h"
#include "layers/plain_layers.h"
#include "train/step/autocast.h"
#include "train/step/batch_on_device.h"
#include "train/step/classification_loss.h"

namespace adaact {
namespace {

/// Where there is none, LibTorch's operators know what is wrong.
bool has_fused_loss(const torch::Tensor& logits, const torch::Tensor& labels) {
  return may_be_fused(logits) && logits.dim() == 2 && logits.numel() > 0 &&
         has_kernels(logits.scalar_type()) && labels.dim() == 1 &&
         labels.size(0) == logits.size(0) && labels.scalar_type() == torch::kLong &&
         labels.device() == logits.device();
}

}  // namespace

torch::Tensor prepared_images(const Batch& batch, const PassSettings& settings) {
  return on_device(batch.images, settings.device)
      .to(settings.image_dtype())
      .contiguous(settings.channels_last ? torch::MemoryFormat::ChannelsLast
                                         : torch::MemoryFormat::Contiguous);
}

TrainingPass training_pass(Model& model, const torch::Tensor& images, const Targets& targets,
                           std::int64_t images_of_step, const PassSettings& settings) {
  const auto computed = forward_as_computed(model, images, settings.bf16);
  const bool is_plain = settings.loss == Loss::CrossEntropy && !targets.are_mixed();
  if (is_plain && has_fused_loss(computed, targets.labels)) {
    const auto result =
        cross_entropy_cuda(computed.detach(), targets.labels, settings.label_smoothing,
                           static_cast<double>(images_of_step));
    computed.backward(result.gradient);
    return {result.loss, computed.detach(), result.hits};
  }
  const auto logits = computed.to(torch::kFloat32);
  const auto loss = summed_loss(logits, targets, settings.loss, settings.label_smoothing) /
                    static_cast<double>(images_of_step);
  loss.backward();
  return {loss.detach(), logits.detach(), {}};
}

torch::Tensor best_classes(const torch::Tensor& logits) {
  return std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
}

torch::Tensor evaluation_sums(const torch::Tensor& logits, const torch::Tensor& best,
                              const torch::Tensor& labels) {
  const auto loss = torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
  const auto hits = best.eq(labels.unsqueeze(1));
  return torch::stack({loss.to(torch::kFloat64), hits.select(1, 0).sum().to(torch::kFloat64),
                       hits.sum().to(torch::kFloat64)});
}

torch::Tensor evaluation_pass(Model& model, const torch::Tensor& images,
                              const torch::Tensor& labels, const PassSettings& settings) {
  const auto logits = forward_with_autocast(model, images, settings.bf16);
  return evaluation_sums(logits, best_classes(logits), labels);
}

Evaluation to_evaluation(const torch::Tensor& sums, std::int64_t images) {
  const auto values = sums.accessor<double, 1>();
  const auto count = static_cast<double>(images);
  return {values[0] / count, values[1] / count, values[2] / count, images};
}

}  // namespace adaact
