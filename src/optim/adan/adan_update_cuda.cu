// Adan on a GPU, all parameters of a model at once. The symbols are those of adan.cpp.

#include "optim/adan/adan_update_cuda.h"

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
struct Update : AdanNumbers {
  using State = SumOf<Scalar>;
  Scalar* theta;
  const Scalar* g;
  State *m, *v, *n, *previous;
  std::int64_t numel;
  bool aligned;
};

template <typename State>
struct Scalars : AdanElementScalars<State> {
  bool is_left_out, is_first;
};

/// To be called by one warp, whose lanes compute one bias correction each.
template <typename Scalar>
__device__ Scalars<SumOf<Scalar>> scalars_of(const Update<Scalar>& each, const double* norm,
                                             const StepView& step) {
  const auto t = step.number_after(each.updates);
  const auto beta = threadIdx.x == 0 ? each.beta1 : threadIdx.x == 1 ? each.beta2 : each.beta3;
  const auto correction = bias_correction_on_gpu(beta, t);
  const auto correction_of = [&](int lane) { return __shfl_sync(0xffffffffU, correction, lane); };
  AdanScalars s{each};
  s.lr = step.rate(each.lr, each.group);
  s.correction1 = correction_of(0);
  s.correction2 = correction_of(1);
  s.correction3 = correction_of(2);
  if (norm != nullptr) s.gradient_scale = fmin(1.0, each.max_grad_norm / (*norm + each.eps));
  return {AdanElementScalars<SumOf<Scalar>>::of(s), step.is_left_out(), t == 1};
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads)
    update_parameters(const __grid_constant__ List list, const std::int64_t chunk_size,
                      const double* norm, const StepView step) {
  using State = SumOf<Scalar>;
  constexpr int kWidth = 16 / sizeof(State);
  __shared__ Scalars<State> shared;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  if (threadIdx.x < 32) {
    const auto scalars = scalars_of(each, norm, step);
    if (threadIdx.x == 0) shared = scalars;
  }
  __syncthreads();
  const auto s = shared;
  if (s.is_left_out) return;
  for_each_run<kWidth>(chunk, each.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    auto theta = load<kRun>(each.theta + i);
    const auto grad = load<kRun>(each.g + i);
    auto m = load<kRun>(each.m + i);
    auto v = load<kRun>(each.v + i);
    auto n = load<kRun>(each.n + i);
    auto previous = load<kRun>(each.previous + i);
    for (int k = 0; k < kRun; ++k) {
      const State g = static_cast<State>(grad.values[k]) * s.gradient_scale;
      const State diff = s.is_first ? State(0) : g - previous.values[k];  // Δ
      const State ahead = g + s.beta2 * diff;
      m.values[k] = s.beta1 * m.values[k] + s.one_minus_beta1 * g;              // m
      v.values[k] = s.beta2 * v.values[k] + s.one_minus_beta2 * diff;           // v
      n.values[k] = s.beta3 * n.values[k] + s.one_minus_beta3 * ahead * ahead;  // n
      const State u = (s.m_scale * m.values[k] + s.v_scale * v.values[k]) /
                      (sqrt(s.n_scale * n.values[k]) + s.eps);  // u
      theta.values[k] = static_cast<Scalar>(s.theta_scale * static_cast<State>(theta.values[k]) -
                                            s.u_scale * u);  // θ
      previous.values[k] = g;
    }
    store<kRun>(each.theta + i, theta);
    store<kRun>(each.m + i, m);
    store<kRun>(each.v + i, v);
    store<kRun>(each.n + i, n);
    store<kRun>(each.previous + i, previous);
  });
}

template <typename Scalar>
Update<Scalar> describe(const AdanParameter& parameter) {
  using State = SumOf<Scalar>;
  const auto& [theta, g, m, v, n, previous] = parameter.tensors;
  Update<Scalar> each{};
  static_cast<AdanNumbers&>(each) = parameter;
  each.theta = theta.data_ptr<Scalar>();
  each.g = g.data_ptr<Scalar>();
  each.m = m.data_ptr<State>();
  each.v = v.data_ptr<State>();
  each.n = n.data_ptr<State>();
  each.previous = previous.data_ptr<State>();
  each.numel = theta.numel();
  each.aligned = aligned_for_runs<16 / sizeof(State)>(each.theta, each.g, each.m, each.v, each.n,
                                                      each.previous);
  return each;
}

}  // namespace

bool can_update_cuda(const AdanParameter& parameter) {
  const auto& [theta, g, m, v, n, previous] = parameter.tensors;
  if (!theta.is_cuda() || !has_kernels(theta.scalar_type()) ||
      !goes_with(theta, g, theta.scalar_type())) {
    return false;
  }
  const auto states = {&m, &v, &n, &previous};
  return std::all_of(states.begin(), states.end(), [&theta = theta](const torch::Tensor* state) {
    return goes_with(theta, *state, sum_dtype(theta));
  });
}

void adan_update_cuda(const std::vector<AdanParameter>& parameters,
                      const torch::Tensor& gradient_norm, const DeviceStep* step) {
  const StepView view(step);
  update_by_kind(parameters, gradient_norm, [&](const auto& kind, const double* norm) {
    AT_DISPATCH_FLOATING_TYPES_AND2(
        torch::kHalf, torch::kBFloat16, kind.dtype, "adan_update_cuda", [&] {
          std::vector<Update<scalar_t>> updates;
          for (const auto* parameter : kind.parameters) {
            updates.push_back(describe<scalar_t>(*parameter));
          }
          const auto chunks = chunking_of(updates);
          launch_chunks(updates, chunks, [&](const auto& list, unsigned blocks) {
            update_parameters<scalar_t><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
                list, chunks.size, norm, view);
            C10_CUDA_KERNEL_LAUNCH_CHECK();
          });
        });
  });
}

}  // namespace adaact
