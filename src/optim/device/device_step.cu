#include "optim/device/device_step.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/flat_values.cuh"

namespace adaact {
namespace {

using namespace many_tensors;

static_assert(sizeof(long long) == sizeof(std::int64_t), "atomics are on long long");

/// The parts of a DeviceStep that kernels write.
struct Counters {
  explicit Counters(const DeviceStep& step)
      : accepted(step.accepted.data_ptr<std::int64_t>()),
        rejected(step.rejected.data_ptr<std::int64_t>()),
        bad(step.bad.data_ptr<std::int32_t>()),
        culprit(reinterpret_cast<long long*>(step.culprit.data_ptr<std::int64_t>())) {}

  std::int64_t* accepted;
  std::int64_t* rejected;
  std::int32_t* bad;
  long long* culprit;
};

__global__ void begin_step(const Counters counters) {
  *counters.bad = 0;
  if (*counters.rejected == 0) *counters.culprit = kNoCulprit;
}

__global__ void count_step(const Counters counters) {
  ++*(*counters.bad != 0 ? counters.rejected : counters.accepted);
}

/// Minimum and "or" give the same in whatever order the blocks come.
template <typename List>
__global__ void __launch_bounds__(kThreads)
    find_non_finite(const __grid_constant__ List list, const std::int64_t chunk_size,
                    const std::int64_t first_index, const Counters counters) {
  const auto chunk = find_chunk(list, chunk_size);
  const auto& tensor = list.items[chunk.tensor];
  int found = 0;
  for_each_value(tensor, chunk, [&](auto value) { found |= isfinite(value) ? 0 : 1; });
  if (__syncthreads_or(found) == 0 || threadIdx.x != 0) return;
  atomicOr(counters.bad, 1);
  if (*counters.rejected == 0) {
    atomicMin(counters.culprit, static_cast<long long>(first_index + tensor.position));
  }
}

}  // namespace

DeviceStep make_device_step(std::int64_t groups, torch::Device device) {
  const auto on_device = torch::TensorOptions().device(device);
  DeviceStep step;
  step.lr = torch::zeros({groups}, on_device.dtype(torch::kFloat64));
  step.counts = torch::zeros({3}, on_device.dtype(torch::kInt64));
  step.accepted = step.counts.narrow(0, 0, 1);
  step.rejected = step.counts.narrow(0, 1, 1);
  step.culprit = step.counts.narrow(0, 2, 1).fill_(kNoCulprit);
  step.bad = torch::zeros({1}, on_device.dtype(torch::kInt32));
  return step;
}

StepCounts read_counts(const DeviceStep& step) {
  const auto counts = step.counts.cpu();
  const auto* values = counts.data_ptr<std::int64_t>();
  return {values[0], values[1], values[2]};
}

void begin_step_cuda(const DeviceStep& step) {
  const c10::cuda::CUDAGuard device(step.bad.device());
  begin_step<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(Counters(step));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void check_finite_cuda(const std::vector<torch::Tensor>& tensors, std::int64_t first_index,
                       const DeviceStep& step) {
  const c10::cuda::CUDAGuard device(step.bad.device());
  const auto flat = flatten(tensors);
  if (flat.tensors.empty()) return;
  TORCH_CHECK(tensors[0].device() == step.bad.device(), "a step on ", step.bad.device(),
              " was given tensors on ", tensors[0].device());
  const auto chunks = chunking_of(flat.tensors);
  launch_chunks(flat.tensors, chunks, [&](const auto& list, unsigned blocks) {
    find_non_finite<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        list, chunks.size, first_index, Counters(step));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

void end_step_cuda(const DeviceStep& step) {
  const c10::cuda::CUDAGuard device(step.bad.device());
  count_step<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(Counters(step));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace adaact
