#pragma once

#include <cstdint>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace adaact {

class DeviceSession;

/// In builds with CUDA and LibTorch 2.3 or newer.
bool has_fused_operators();

// One step of LibTorch's optimizers by its fused operators: a launch for all parameters instead of
// several for each. Within a session learning rate, count and verdict come from there. False, and
// nothing has changed, where this LibTorch, these parameters or these options have none. Counts in
// the states are count_fused_steps()'s business.
//
// A learning rate in the memory of a GPU is a float32 to these operators. Outside of a session it is
// rounded likewise for parameters of at most that precision, so that a step is the same in both.
bool fused_step(torch::optim::SGD& optimizer, const DeviceSession* session);
bool fused_step(torch::optim::Adam& optimizer, const DeviceSession* session);
bool fused_step(torch::optim::AdamW& optimizer, const DeviceSession* session);

/// These parameters have taken so many further steps.
void count_fused_steps(torch::optim::SGD& optimizer, const std::vector<torch::Tensor>& parameters,
                       std::int64_t steps);
void count_fused_steps(torch::optim::Adam& optimizer, const std::vector<torch::Tensor>& parameters,
                       std::int64_t steps);
void count_fused_steps(torch::optim::AdamW& optimizer, const std::vector<torch::Tensor>& parameters,
                       std::int64_t steps);

/// Those with a gradient.
std::vector<torch::Tensor> trained_parameters(const torch::optim::Optimizer& optimizer);

}  // namespace adaact
