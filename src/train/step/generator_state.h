#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>
#include <adaact/data/loader.h>
#include <adaact/ranks/communicator.h>
#include <torch/types.h>

namespace adaact {

/// LibTorch's generator of a device, from which dropout and drop-path draw there.
at::Generator generator_of(torch::Device device);
torch::Tensor state_of(at::Generator generator);
void set_state(at::Generator generator, const torch::Tensor& state);

/// To be called by all ranks after the pass over a batch of which the loader gave this rank its part. Where the batch is
/// too small for all of them, those without images have drawn nothing: they go on with the generator of one that has,
/// as one process would. No sum may be under way.
void catch_up_with_generator(std::int64_t whole_batch, const LoaderOptions& data,
                             torch::Device device, Communicator& ranks);

}  // namespace adaact
