#include "train/step/classification_loss.h"

#include <torch/torch.h>

namespace adaact {
namespace {

torch::Tensor binary_cross_entropy(const torch::Tensor& logits, const torch::Tensor& labels,
                                   double label_smoothing) {
  const auto classes = static_cast<double>(logits.size(1));
  const auto of_others = label_smoothing / classes;
  const auto targets = torch::full_like(logits, of_others)
                           .scatter_(1, labels.unsqueeze(1), 1.0 - label_smoothing + of_others);
  return torch::binary_cross_entropy_with_logits(logits, targets, /*weight=*/{},
                                                 /*pos_weight=*/{}, at::Reduction::Sum) /
         classes;
}

torch::Tensor loss_of_labels(const torch::Tensor& logits, const torch::Tensor& labels, Loss loss,
                             double label_smoothing) {
  if (loss == Loss::BinaryCrossEntropy) {
    return binary_cross_entropy(logits, labels, label_smoothing);
  }
  return torch::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum,
                                   /*ignore_index=*/-100, label_smoothing);
}

}  // namespace

torch::Tensor summed_loss(const torch::Tensor& logits, const Targets& targets, Loss loss,
                          double label_smoothing) {
  const auto own = loss_of_labels(logits, targets.labels, loss, label_smoothing);
  if (!targets.are_mixed()) return own;
  // Either loss is linear in the target.
  const auto partners = loss_of_labels(logits, targets.partner_labels, loss, label_smoothing);
  return targets.own_share * own + (1.0 - targets.own_share) * partners;
}

}  // namespace adaact
