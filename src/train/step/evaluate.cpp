#include <adaact/train/evaluate.h>

#include <torch/torch.h>

#include "train/step/autocast.h"
#include "train/step/batch_on_device.h"
#include "train/step/classification_pass.h"
#include "train/step/details_collector.h"
#include "train/step/evaluation_mode.h"

namespace adaact {
namespace {

/// Without a collector nothing but the sums is computed.
std::optional<Evaluation> pass_over(const std::function<bool()>& should_stop, Model& model,
                                    Loader& loader, const PassSettings& settings,
                                    DetailsCollector* collector) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  auto sums = torch::zeros({3}, torch::kFloat64);
  std::int64_t images = 0;
  loader.start(/*epoch=*/0);
  while (const auto batch = loader.next()) {
    if (should_stop()) return std::nullopt;
    if (batch->size() == 0) continue;  // all of its images are other ranks'
    const auto logits =
        forward_with_autocast(model, prepared_images(*batch, settings), settings.bf16);
    const auto best = best_classes(logits);
    sums += evaluation_sums(logits, best, on_device(batch->labels, settings.device)).cpu();
    if (collector != nullptr) collector->add(*batch, logits, best.select(1, 0));
    images += batch->size();
  }
  return to_evaluation(sums, images);
}

}  // namespace

std::optional<Evaluation> evaluate_unless(const std::function<bool()>& should_stop, Model& model,
                                          Loader& loader, torch::Device device, bool bf16,
                                          bool channels_last) {
  return pass_over(should_stop, model, loader, {device, bf16, channels_last}, nullptr);
}

Evaluation evaluate(Model& model, Loader& loader, torch::Device device, bool bf16,
                    bool channels_last) {
  return *evaluate_unless([] { return false; }, model, loader, device, bf16, channels_last);
}

std::optional<DetailedEvaluation> evaluate_in_detail_unless(
    const std::function<bool()>& should_stop, Model& model, Loader& loader, torch::Device device,
    bool bf16, bool channels_last) {
  DetailsCollector collector(loader.dataset());
  const auto sums =
      pass_over(should_stop, model, loader, {device, bf16, channels_last}, &collector);
  if (!sums) return std::nullopt;
  return DetailedEvaluation{*sums, collector.details()};
}

}  // namespace adaact
