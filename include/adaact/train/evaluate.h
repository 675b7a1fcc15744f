#pragma once

#include <functional>
#include <optional>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/metrics.h>

namespace adaact {

/// One pass over a data set in evaluation mode, without gradients; the modes of its modules are
/// put back.
Evaluation evaluate(Model& model, Loader& loader, torch::Device device, bool bf16 = false,
                    bool channels_last = false);

/// evaluate() that asks between two batches whether to stop, and returns nothing then.
std::optional<Evaluation> evaluate_unless(const std::function<bool()>& should_stop, Model& model,
                                          Loader& loader, torch::Device device, bool bf16 = false,
                                          bool channels_last = false);

}  // namespace adaact
