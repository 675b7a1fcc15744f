// LAMB on a GPU, all parameters of a model at once. The symbols are those of lamb.cpp. u is needed
// twice, for its norm and for the update: computing it again from m and v costs the same traffic as
// keeping it, and no memory.

#include "optim/lamb/lamb_update_cuda.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/sum_dtype.h"
#include "kernels/tensor_chunks.cuh"
#include "optim/device/update_kernels.cuh"

namespace adaact {
namespace {

using namespace many_tensors;
using namespace update_kernels;

template <typename Scalar>
struct Update : LambNumbers {
  using State = SumOf<Scalar>;
  Scalar* theta;
  const Scalar* g;
  State *m, *v;
  std::int64_t numel;
  bool aligned;
};

/// What the launches of a step hand on to one another, for the list that they are given.
struct Scratch {
  const double* gradient_norm;  // null: no limit
  double* squares;              // (chunks, 2): Σθ² and Σu²
  double* ratios;               // (tensors): r
};

template <typename State>
struct Scalars : LambElementScalars<State> {
  bool is_left_out;
};

/// To be called by one warp, whose lanes compute one bias correction each.
template <typename Scalar>
__device__ Scalars<SumOf<Scalar>> scalars_of(const Update<Scalar>& each, const double* norm,
                                             const StepView& step) {
  const auto correction = bias_correction_on_gpu(threadIdx.x == 0 ? each.beta1 : each.beta2,
                                                 step.number_after(each.updates));
  const auto correction_of = [&](int lane) { return __shfl_sync(0xffffffffU, correction, lane); };
  LambScalars s{each};
  s.correction1 = correction_of(0);
  s.correction2 = correction_of(1);
  if (norm != nullptr) s.gradient_scale = 1.0 / fmax(1.0, *norm / each.max_grad_norm);
  return {LambElementScalars<SumOf<Scalar>>::of(s), step.is_left_out()};
}

template <typename State>
__device__ State direction(State theta, State m, State v, const Scalars<State>& s) {
  return s.m_scale * m / (sqrt(s.v_scale * v) + s.eps) + s.weight_decay * theta;  // u
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads)
    update_averages(const __grid_constant__ List list, const std::int64_t chunk_size,
                    const Scratch scratch, const StepView step) {
  using State = SumOf<Scalar>;
  constexpr int kWidth = 16 / sizeof(State);
  __shared__ Scalars<State> shared;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  if (threadIdx.x < 32) {
    const auto scalars = scalars_of(each, scratch.gradient_norm, step);
    if (threadIdx.x == 0) shared = scalars;
  }
  __syncthreads();
  const auto s = shared;
  if (s.is_left_out) return;
  double theta_squares = 0.0;
  double u_squares = 0.0;
  for_each_run<kWidth>(chunk, each.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    const auto theta = load<kRun>(each.theta + i);
    const auto grad = load<kRun>(each.g + i);
    auto m = load<kRun>(each.m + i);
    auto v = load<kRun>(each.v + i);
    for (int k = 0; k < kRun; ++k) {
      const State g = static_cast<State>(grad.values[k]) * s.gradient_scale;
      m.values[k] = s.beta1 * m.values[k] + s.one_minus_beta1 * g;      // m
      v.values[k] = s.beta2 * v.values[k] + s.one_minus_beta2 * g * g;  // v
      const State old = static_cast<State>(theta.values[k]);
      const double u = direction(old, m.values[k], v.values[k], s);
      theta_squares += static_cast<double>(old) * static_cast<double>(old);
      u_squares += u * u;
    }
    store<kRun>(each.m + i, m);
    store<kRun>(each.v + i, v);
  });
  if (!each.adapts) return;
  theta_squares = block_sum(theta_squares);
  u_squares = block_sum(u_squares);
  if (threadIdx.x == 0) {
    double* squares = scratch.squares + 2 * static_cast<std::int64_t>(blockIdx.x);
    squares[0] = theta_squares;
    squares[1] = u_squares;
  }
}

/// Runs with a block for each tensor.
template <typename List>
__global__ void __launch_bounds__(kThreads)
    find_trust_ratios(const __grid_constant__ List list, const Scratch scratch,
                      const StepView step) {
  const auto& each = list.items[blockIdx.x];
  if (step.is_left_out()) return;
  double theta_squares = 0.0;
  double u_squares = 0.0;
  if (each.adapts) {
    for (auto i = list.first_block[blockIdx.x] + threadIdx.x; i < list.first_block[blockIdx.x + 1];
         i += kThreads) {
      theta_squares += scratch.squares[2 * static_cast<std::int64_t>(i)];
      u_squares += scratch.squares[2 * static_cast<std::int64_t>(i) + 1];
    }
  }
  theta_squares = block_sum(theta_squares);
  u_squares = block_sum(u_squares);
  if (threadIdx.x != 0) return;
  const bool defined = theta_squares > 0.0 && u_squares > 0.0;
  const double ratio = defined ? sqrt(theta_squares) / sqrt(u_squares) : 1.0;
  scratch.ratios[blockIdx.x] = each.trust_clip ? fmin(ratio, 1.0) : ratio;  // r
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads)
    update_parameters(const __grid_constant__ List list, const std::int64_t chunk_size,
                      const Scratch scratch, const StepView step) {
  using State = SumOf<Scalar>;
  constexpr int kWidth = 16 / sizeof(State);
  __shared__ Scalars<State> shared;
  __shared__ State shared_rate;  // η r
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  if (threadIdx.x < 32) {
    const auto scalars = scalars_of(each, scratch.gradient_norm, step);
    if (threadIdx.x == 0) {
      shared = scalars;
      const double ratio = scalars.is_left_out ? 1.0 : scratch.ratios[chunk.tensor];
      shared_rate = static_cast<State>(step.rate(each.lr, each.group) * ratio);
    }
  }
  __syncthreads();
  const auto s = shared;
  const auto rate = shared_rate;
  if (s.is_left_out) return;
  for_each_run<kWidth>(chunk, each.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    auto theta = load<kRun>(each.theta + i);
    const auto m = load<kRun>(each.m + i);
    const auto v = load<kRun>(each.v + i);
    for (int k = 0; k < kRun; ++k) {
      const State old = static_cast<State>(theta.values[k]);
      theta.values[k] =
          static_cast<Scalar>(old - rate * direction(old, m.values[k], v.values[k], s));  // θ
    }
    store<kRun>(each.theta + i, theta);
  });
}

template <typename Scalar>
Update<Scalar> describe(const LambParameter& parameter) {
  using State = SumOf<Scalar>;
  const auto& [theta, g, m, v] = parameter.tensors;
  Update<Scalar> each{};
  static_cast<LambNumbers&>(each) = parameter;
  each.theta = theta.data_ptr<Scalar>();
  each.g = g.data_ptr<Scalar>();
  each.m = m.data_ptr<State>();
  each.v = v.data_ptr<State>();
  each.numel = theta.numel();
  each.aligned = aligned_for_runs<16 / sizeof(State)>(each.theta, each.g, each.m, each.v);
  return each;
}

template <typename Scalar>
void update_kind(const std::vector<const LambParameter*>& parameters, const double* norm,
                 const StepView& step) {
  std::vector<Update<Scalar>> updates;
  for (const auto* parameter : parameters) updates.push_back(describe<Scalar>(*parameter));
  const auto chunks = chunking_of(updates);
  const auto options = torch::dtype(torch::kFloat64).device(parameters[0]->tensors.theta.device());
  const torch::Tensor squares = torch::empty({chunks.count, 2}, options);
  const torch::Tensor ratios = torch::empty({static_cast<std::int64_t>(updates.size())}, options);
  Scratch scratch{norm, squares.data_ptr<double>(), ratios.data_ptr<double>()};
  const auto stream = at::cuda::getCurrentCUDAStream();
  launch_chunks(updates, chunks, [&](const auto& list, unsigned blocks) {
    update_averages<Scalar><<<blocks, kThreads, 0, stream>>>(list, chunks.size, scratch, step);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    find_trust_ratios<<<list.count, kThreads, 0, stream>>>(list, scratch, step);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    update_parameters<Scalar><<<blocks, kThreads, 0, stream>>>(list, chunks.size, scratch, step);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    scratch.squares += 2 * static_cast<std::int64_t>(blocks);
    scratch.ratios += list.count;
  });
}

}  // namespace

bool can_update_cuda(const LambParameter& parameter) {
  const auto& [theta, g, m, v] = parameter.tensors;
  return theta.is_cuda() && has_kernels(theta.scalar_type()) &&
         goes_with(theta, g, theta.scalar_type()) && goes_with(theta, m, sum_dtype(theta)) &&
         goes_with(theta, v, sum_dtype(theta));
}

void lamb_update_cuda(const std::vector<LambParameter>& parameters,
                      const torch::Tensor& gradient_norm, const DeviceStep* step) {
  const StepView view(step);
  update_by_kind(parameters, gradient_norm, [&](const auto& kind, const double* norm) {
    AT_DISPATCH_FLOATING_TYPES_AND2(torch::kHalf, torch::kBFloat16, kind.dtype, "lamb_update_cuda",
                                    [&] { update_kind<scalar_t>(kind.parameters, norm, view); });
  });
}

}  // namespace adaact
