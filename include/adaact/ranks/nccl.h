#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <adaact/ranks/communicator.h>
#include <torch/types.h>

namespace adaact {

/// Whether this build has NCCL. Without it nccl_communicator() throws, and says so.
bool has_nccl();

struct NcclOptions {
  /// Ranks that all answer wait for one another's GPUs, and for NCCL to start, ten times as long as this. One that does
  /// not answer is found by `ranks`, in the time that these were made with.
  std::chrono::duration<double> timeout = std::chrono::seconds(20);
};

/// What tells a GPU from all others, on any machine.
std::string name_of_gpu(torch::Device device);

/// Ranks that sum tensors of their GPUs by NCCL, and everything else by `ranks`, by which NCCL also starts. Each has a
/// GPU of its own, `device`: two on one are an error of NCCL's.
///
/// Sums are enqueued beside the current stream, on a stream of the communicator's own, and a CUDA graph can capture
/// them. Numbers of 16 bits are rounded after each addition; booleans become whether any rank's is true. Graphs with
/// sums must be gone before the communicator is.
///
/// Of one rank, too, everything goes through NCCL. A program that may be a single process takes single_process() for
/// it, which costs nothing.
std::shared_ptr<Communicator> nccl_communicator(std::shared_ptr<Communicator> ranks,
                                                torch::Device device,
                                                const NcclOptions& options = {});

}  // namespace adaact
