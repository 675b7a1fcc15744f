#pragma once

#include <adaact/data/loader.h>
#include <torch/types.h>

#include "train/step/batch_on_device.h"

namespace adaact {

/// What the images of a batch are to be taken for, on the device of the model.
struct Targets {
  torch::Tensor labels;               // (B) kLong
  torch::Tensor partner_labels = {};  // (B) kLong; undefined where nothing was mixed
  torch::Tensor own_share = {};       // () kFloat, of the labels, beside the partners'

  static Targets of(const Batch& batch, torch::Device device) {
    Targets targets{on_device(batch.labels, device)};
    if (!batch.partner_labels.defined()) return targets;
    targets.partner_labels = on_device(batch.partner_labels, device);
    targets.own_share =
        torch::full({}, batch.own_share, torch::dtype(torch::kFloat32).device(device));
    return targets;
  }

  bool are_mixed() const { return partner_labels.defined(); }

  /// The label that has more of each image.
  torch::Tensor likelier() const {
    return are_mixed() ? torch::where(own_share >= 0.5, labels, partner_labels) : labels;
  }
};

}  // namespace adaact
