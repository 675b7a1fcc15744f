#pragma once

#include <functional>
#include <optional>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/metrics.h>
#include <adaact/train/test_details.h>

namespace adaact {

/// One pass over a data set in evaluation mode, without gradients; the modes of its modules are
/// put back.
Evaluation evaluate(Model& model, Loader& loader, torch::Device device, bool bf16 = false,
                    bool channels_last = false);

/// evaluate() that asks between two batches whether to stop, and returns nothing then.
std::optional<Evaluation> evaluate_unless(const std::function<bool()>& should_stop, Model& model,
                                          Loader& loader, torch::Device device, bool bf16 = false,
                                          bool channels_last = false);

struct DetailedEvaluation {
  Evaluation sums;
  TestDetails details;
};

/// evaluate_unless() with what each class is taken for and the images that were most confidently wrong.
std::optional<DetailedEvaluation> evaluate_in_detail_unless(
    const std::function<bool()>& should_stop, Model& model, Loader& loader, torch::Device device,
    bool bf16 = false, bool channels_last = false);

}  // namespace adaact
