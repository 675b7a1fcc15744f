#pragma once

#include <adaact/train/loss.h>
#include <torch/types.h>

#include "train/step/targets.h"

namespace adaact {

/// The loss of logits (B, K), summed over the images; that of BinaryCrossEntropy is in the mean over the classes.
///
/// Of K classes a label has 1 − ε + ε/K of a target and every other one ε/K, where ε is the label smoothing. Of a
/// mixed image each of the two labels has its share of that.
torch::Tensor summed_loss(const torch::Tensor& logits, const Targets& targets, Loss loss,
                          double label_smoothing);

}  // namespace adaact
