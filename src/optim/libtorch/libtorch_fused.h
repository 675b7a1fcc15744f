#pragma once

#include <cstdint>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "optim/base/step_parts.h"

namespace adaact {

/// Whether this LibTorch is 2.3 or newer.
bool has_fused_operators();

// One step of LibTorch's optimizers by its fused operators: a launch for all parameters instead of
// several for each. Where the device has the numbers of the step, learning rate, count and verdict come from
// there. False, and nothing has changed, where this LibTorch, these parameters or these options have none. Counts in
// the states stay as they are.
//
// A learning rate in the memory of a GPU is a float32 to these operators. One of the host's is rounded
// likewise for parameters of at most that precision, so that a step is the same in both.
bool fused_step(torch::optim::SGD& optimizer, const StepParts::Numbers& numbers);
bool fused_step(torch::optim::Adam& optimizer, const StepParts::Numbers& numbers);
bool fused_step(torch::optim::AdamW& optimizer, const StepParts::Numbers& numbers);

/// The optimizer's parameters that have a gradient.
std::vector<torch::Tensor> trained_parameters(const torch::optim::Optimizer& optimizer);

}  // namespace adaact
