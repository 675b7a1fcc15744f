#pragma once

#include <functional>
#include <string>

#include <adaact/train/evaluate.h>
#include <adaact/train/metrics.h>
#include <adaact/train/run_config.h>

namespace adaact {

/// Evaluates `config.weights` on the test data as a run of this configuration would. `warn` is told if
/// the file says that the weights are for other classes.
Evaluation evaluate_weights(RunConfig config, const std::function<void(const std::string&)>& warn);

/// evaluate_weights() with what each class is taken for and the images that were most confidently wrong.
DetailedEvaluation evaluate_weights_in_detail(RunConfig config,
                                              const std::function<void(const std::string&)>& warn);

}  // namespace adaact
