#include "optim/device/device_session.h"

#include <algorithm>
#include <utility>

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
  step.counts = torch::zeros({4}, on_device.dtype(torch::kInt64));
  step.accepted = step.counts.narrow(0, 0, 1);
  step.rejected = step.counts.narrow(0, 1, 1);
  step.culprit = step.counts.narrow(0, 2, 1).fill_(kNoCulprit);
  step.outsized = step.counts.narrow(0, 3, 1).fill_(kNoCulprit);
  step.bad = torch::zeros({1}, on_device.dtype(torch::kInt32));
  return step;
}

StepCounts read_counts(const DeviceStep& step) {
  const auto counts = step.counts.cpu();
  const auto* values = counts.data_ptr<std::int64_t>();
  return {values[0], values[1], values[2], values[3]};
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

bool DeviceSession::can_check(const std::vector<torch::Tensor>& tensors) {
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& tensor) {
           return tensor.is_cuda() && tensor.device() == tensors[0].device() &&
                  tensor.is_floating_point();
         });
}

DeviceSession::DeviceSession(std::int64_t groups, torch::Device device)
    : step_(make_device_step(groups, device)) {}

bool DeviceSession::is_for(std::int64_t groups, torch::Device device) const {
  return step_.lr.numel() == groups && step_.lr.device() == device;
}

void DeviceSession::send_learning_rates(const std::vector<double>& rates) {
  if (rates == sent_rates_) return;
  const auto groups = static_cast<std::int64_t>(rates.size());
  TORCH_CHECK(groups == step_.lr.numel(), "adaact: there are ", groups,
              " parameter groups, expected the ", step_.lr.numel(),
              " that were there when steps on the device began");
  // From pinned memory nobody waits for the steps that are under way.
  step_.lr.copy_(torch::tensor(rates, torch::kFloat64).pin_memory(), /*non_blocking=*/true);
  sent_rates_ = rates;
}

void DeviceSession::begin(const std::vector<torch::Tensor>& checked) {
  begin_step_cuda(step_);
  check_finite_cuda(checked, /*first_index=*/0, step_);
}

std::optional<std::size_t> DeviceSession::culprit() {
  const auto counts = read_counts(step_);
  note_outsized(counts);
  if (counts.culprit == kNoCulprit) return std::nullopt;
  return static_cast<std::size_t>(counts.culprit);
}

void DeviceSession::note_outsized(const StepCounts& counts) {
  if (counts.outsized == kNoCulprit) return;
  outsized_ = static_cast<std::size_t>(counts.outsized);
  step_.outsized.fill_(kNoCulprit);
}

void DeviceSession::end() { end_step_cuda(step_); }

DeviceSession::News DeviceSession::read() {
  const auto counts = read_counts(step_);
  note_outsized(counts);
  News news;
  news.accepted = counts.accepted - std::exchange(accepted_, counts.accepted);
  news.rejected = counts.rejected;
  if (news.rejected > 0) {
    news.culprit = static_cast<std::size_t>(counts.culprit);
    step_.rejected.zero_();
    step_.culprit.fill_(kNoCulprit);
  }
  return news;
}

}  // namespace adaact
