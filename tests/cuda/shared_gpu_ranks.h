#pragma once

#include <memory>

#include <adaact/ranks/communicator.h>
#include <torch/types.h>

namespace adaact::testing {

/// Processes that share one GPU and add up tensors in memory of it that all of them see, by kernels that wait for one
/// another: NCCL refuses such ranks, and these can be captured in CUDA graphs as NCCL's can. Slow, since the processes
/// take turns on the GPU. What is not on the GPU goes through `ranks`.
std::shared_ptr<Communicator> shared_gpu_ranks(std::shared_ptr<Communicator> ranks);

}  // namespace adaact::testing
