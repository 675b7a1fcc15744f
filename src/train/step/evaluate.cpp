#include <adaact/train/evaluate.h>

#include <torch/torch.h>

#include "train/step/classification_pass.h"
#include "train/step/evaluation_mode.h"

namespace adaact {

std::optional<Evaluation> evaluate_unless(const std::function<bool()>& should_stop, Model& model,
                                          Loader& loader, torch::Device device, bool bf16,
                                          bool channels_last) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  const PassSettings settings{device, bf16, channels_last};
  auto sums = torch::zeros({3}, torch::kFloat64);
  std::int64_t images = 0;
  loader.start(/*epoch=*/0);
  while (const auto batch = loader.next()) {
    if (should_stop()) return std::nullopt;
    sums += evaluation_pass(model, prepared_images(*batch, settings), batch->labels.to(device),
                            settings)
                .cpu();
    images += batch->size();
  }
  return to_evaluation(sums, images);
}

Evaluation evaluate(Model& model, Loader& loader, torch::Device device, bool bf16,
                    bool channels_last) {
  return *evaluate_unless([] { return false; }, model, loader, device, bf16, channels_last);
}

}  // namespace adaact
