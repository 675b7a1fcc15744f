#include <adaact/train/evaluate.h>

#include <algorithm>

#include <torch/torch.h>

#include "train/step/autocast.h"
#include "train/step/evaluation_mode.h"
#include "train/step/images_on.h"

namespace adaact {

std::optional<Evaluation> evaluate_unless(const std::function<bool()>& should_stop, Model& model,
                                          Loader& loader, torch::Device device, bool bf16,
                                          bool channels_last) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  Evaluation total;
  double loss_sum = 0.0;
  std::int64_t first = 0;
  std::int64_t among_five = 0;
  loader.start(/*epoch=*/0);
  while (const auto batch = loader.next()) {
    if (should_stop()) return std::nullopt;
    const auto labels = batch->labels.to(device);
    const auto logits =
        forward_with_autocast(model, images_on(device, *batch, channels_last), bf16);
    loss_sum += torch::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum).item<double>();
    const auto best = std::get<1>(logits.topk(std::min<std::int64_t>(5, logits.size(1)), 1));
    const auto hits = best.eq(labels.unsqueeze(1));
    first += hits.select(1, 0).sum().item<std::int64_t>();
    among_five += hits.sum().item<std::int64_t>();
    total.images += batch->size();
  }
  const auto images = static_cast<double>(total.images);
  total.loss = loss_sum / images;
  total.top1 = static_cast<double>(first) / images;
  total.top5 = static_cast<double>(among_five) / images;
  return total;
}

Evaluation evaluate(Model& model, Loader& loader, torch::Device device, bool bf16,
                    bool channels_last) {
  return *evaluate_unless([] { return false; }, model, loader, device, bf16, channels_last);
}

}  // namespace adaact
