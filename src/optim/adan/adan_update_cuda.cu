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
struct Update {
  using State = SumOf<Scalar>;
  Scalar* theta;
  const Scalar* g;
  State *m, *v, *n, *previous;
  std::int64_t numel;
  std::int64_t updates;
  double lr, beta1, beta2, beta3, eps, weight_decay, max_grad_norm;
  std::int32_t group;
  bool proximal;
  bool aligned;
};

template <typename State>
struct Scalars {
  bool is_left_out, is_first;
  State beta1, beta2, beta3, one_minus_beta1, one_minus_beta2, one_minus_beta3, eps;
  State gradient_scale;
  State m_scale, v_scale, n_scale;  // 1/bc₁, β₂/bc₂, 1/bc₃
  State theta_scale, u_scale;       // θ ← theta_scale · θ − u_scale · u
};

/// For one warp, whose lanes compute one bias correction each.
template <typename Scalar>
__device__ Scalars<SumOf<Scalar>> scalars_of(const Update<Scalar>& each, const double* norm,
                                             const StepView& step) {
  using State = SumOf<Scalar>;
  const auto t = step.number_after(each.updates);
  const auto beta = threadIdx.x == 0 ? each.beta1 : threadIdx.x == 1 ? each.beta2 : each.beta3;
  const auto correction = bias_correction(beta, t);
  const auto correction_of = [&](int lane) { return __shfl_sync(0xffffffffU, correction, lane); };
  const auto lr = step.rate(each.lr, each.group);
  const auto decay = lr * each.weight_decay;
  Scalars<State> s;
  s.is_left_out = step.is_left_out();
  s.is_first = t == 1;
  s.beta1 = static_cast<State>(each.beta1);
  s.beta2 = static_cast<State>(each.beta2);
  s.beta3 = static_cast<State>(each.beta3);
  s.one_minus_beta1 = static_cast<State>(1.0 - each.beta1);
  s.one_minus_beta2 = static_cast<State>(1.0 - each.beta2);
  s.one_minus_beta3 = static_cast<State>(1.0 - each.beta3);
  s.eps = static_cast<State>(each.eps);
  s.gradient_scale = static_cast<State>(
      norm != nullptr ? fmin(1.0, each.max_grad_norm / (*norm + each.eps)) : 1.0);
  s.m_scale = static_cast<State>(1.0 / correction_of(0));
  s.v_scale = static_cast<State>(each.beta2 / correction_of(1));
  s.n_scale = static_cast<State>(1.0 / correction_of(2));
  s.theta_scale = static_cast<State>(each.proximal ? 1.0 / (1.0 + decay) : 1.0 - decay);
  s.u_scale = static_cast<State>(each.proximal ? lr / (1.0 + decay) : lr);
  return s;
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
  each.theta = theta.data_ptr<Scalar>();
  each.g = g.data_ptr<Scalar>();
  each.m = m.data_ptr<State>();
  each.v = v.data_ptr<State>();
  each.n = n.data_ptr<State>();
  each.previous = previous.data_ptr<State>();
  each.numel = theta.numel();
  each.updates = parameter.updates;
  each.lr = parameter.lr;
  each.beta1 = parameter.beta1;
  each.beta2 = parameter.beta2;
  each.beta3 = parameter.beta3;
  each.eps = parameter.eps;
  each.weight_decay = parameter.weight_decay;
  each.max_grad_norm = parameter.max_grad_norm;
  each.group = static_cast<std::int32_t>(parameter.group);
  each.proximal = parameter.proximal;
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
  const auto clips = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return std::isfinite(parameter.max_grad_norm);
  });
  TORCH_CHECK(!clips || gradient_norm.defined(),
              "adan_update_cuda: the gradients' norm is missing");
  const StepView view(step);
  for (const auto& kind : by_kind(parameters)) {
    const c10::cuda::CUDAGuard device(kind.device);
    torch::Tensor norm;
    if (clips) norm = gradient_norm.to(kind.device);
    const auto* norm_data = clips ? norm.data_ptr<double>() : nullptr;
    AT_DISPATCH_FLOATING_TYPES_AND2(
        torch::kHalf, torch::kBFloat16, kind.dtype, "adan_update_cuda", [&] {
          std::vector<Update<scalar_t>> updates;
          for (const auto* parameter : kind.parameters)
            updates.push_back(describe<scalar_t>(*parameter));
          const auto chunks = chunking_of(updates);
          launch_chunks(updates, chunks, [&](const auto& list, unsigned blocks) {
            update_parameters<scalar_t><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
                list, chunks.size, norm_data, view);
            C10_CUDA_KERNEL_LAUNCH_CHECK();
          });
        });
  }
  bump_versions(parameters);
}

}  // namespace adaact
