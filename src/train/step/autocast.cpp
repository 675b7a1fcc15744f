#include "train/step/autocast.h"

#include <optional>

#include "layers/narrow_weights.h"

namespace adaact {

torch::Tensor forward_as_computed(Model& model, const torch::Tensor& images, bool bf16) {
  const AutocastScope autocast(images.device(), bf16);
  std::optional<NarrowWeights> narrow;
  if (bf16 && model.is_training()) narrow.emplace(model, images);
  return model.forward(images);
}

}  // namespace adaact
