// Algorithm 1 of the AdaAct paper on a GPU, all parameters of a model at once. The symbols are those
// of adaact.cpp. What the rows of a weight share, V̂ᵖ + ε, is written once, in the order in which the
// weight's columns lie in memory, so that the update itself need not know that order.

#include "optim/adaact/update_cuda.h"

#include <cmath>
#include <tuple>
#include <utility>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/sum_dtype.h"
#include "kernels/tensor_chunks.cuh"
#include "optim/adaact/outsized.h"
#include "optim/adaact/row_averages.h"
#include "optim/base/parameter_update.h"
#include "optim/device/update_kernels.cuh"

namespace adaact {
namespace {

using namespace many_tensors;
using namespace update_kernels;

template <typename State>
struct Statistics {
  const State* sum;  // null: V stays as it is
  State* v;
  State* denominator;
  std::int64_t numel;  // S·n
  std::int64_t observations;
  double count, beta2, eps, power, clip_low, clip_high;
  std::uint32_t columns;  // n
  std::uint32_t offsets;  // kernel offsets, where channels are last in memory; else 1
};

template <typename State>
struct StatisticsScalars {
  bool is_left_out;
  State count, beta2, one_minus_beta2, correction2;
};

template <typename State, typename List>
__global__ void __launch_bounds__(kThreads)
    update_statistics(const __grid_constant__ List list, const std::int64_t chunk_size,
                      const StepView step) {
  __shared__ StatisticsScalars<State> shared;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  if (threadIdx.x == 0) {
    const auto t = each.sum != nullptr ? step.number_after(each.observations) : each.observations;
    shared = {step.is_left_out(), static_cast<State>(each.count), static_cast<State>(each.beta2),
              static_cast<State>(1.0 - each.beta2),
              static_cast<State>(bias_correction_on_gpu(each.beta2, t))};
  }
  __syncthreads();
  const auto s = shared;
  if (s.is_left_out) return;
  const auto low = static_cast<State>(each.clip_low);
  const auto high = static_cast<State>(each.clip_high);
  const auto channels = each.columns / each.offsets;
  for (auto i = chunk.begin + threadIdx.x; i < chunk.end; i += kThreads) {
    State v = each.v[i];
    if (each.sum != nullptr) {
      const State mean = each.sum[i] / s.count;
      const State clipped = mean < low ? low : mean > high ? high : mean;  // Ã_t
      v = s.beta2 * v + s.one_minus_beta2 * clipped;                       // V_t
      each.v[i] = v;
    }
    const State v_hat = v / s.correction2;  // V̂_t
    const State root = each.power == 0.5 ? sqrt(v_hat) : pow(v_hat, static_cast<State>(each.power));
    const auto column = static_cast<std::uint32_t>(i % each.columns);
    const auto in_memory = column % each.offsets * channels + column / each.offsets;
    each.denominator[i - column + in_memory] = root + static_cast<State>(each.eps);
  }
}

template <typename Scalar>
struct Update {
  using State = SumOf<Scalar>;
  Scalar* theta;
  const Scalar* g;
  State* m;                  // null: plain gradient
  const State* denominator;  // null: the same for all elements
  std::int64_t numel;
  std::int64_t updates;
  double lr, beta1, weight_decay, constant;
  std::uint32_t columns;           // n
  std::uint32_t segment_elements;  // of θ that share a row of denominators
  std::int32_t group;
  std::int32_t index;
  bool aligned;
};

template <typename State>
struct UpdateScalars {
  bool is_left_out;
  State beta1, one_minus_beta1;
  State decay;  // 1 − ηλ
  State scale;  // η/bc₁
};

/// V̂ᵖ + ε for elements i, i+1, … of θ.
template <int kWidth, typename Scalar>
__device__ Run<SumOf<Scalar>, kWidth> denominators(const Update<Scalar>& each, std::int64_t i) {
  Run<SumOf<Scalar>, kWidth> run;
  const auto first = static_cast<std::uint32_t>(i);  // observed weights are smaller than 2³¹
  if (each.denominator == nullptr) {
    for (auto& value : run.values) value = static_cast<SumOf<Scalar>>(each.constant);
  } else if (kWidth > 1 && each.columns % kWidth == 0) {
    run = load<kWidth>(each.denominator + first / each.segment_elements * each.columns +
                       first % each.columns);
  } else {
    for (int k = 0; k < kWidth; ++k) {
      const auto element = first + k;
      run.values[k] =
          each.denominator[element / each.segment_elements * each.columns + element % each.columns];
    }
  }
  return run;
}

template <typename Scalar, typename List>
__global__ void __launch_bounds__(kThreads)
    update_parameters(const __grid_constant__ List list, const std::int64_t chunk_size,
                      const StepView step, long long* const outsized) {
  using State = SumOf<Scalar>;
  constexpr int kWidth = 16 / sizeof(State);
  __shared__ UpdateScalars<State> shared;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  if (threadIdx.x == 0) {
    const auto lr = step.rate(each.lr, each.group);
    const auto correction1 = bias_correction_on_gpu(each.beta1, step.number_after(each.updates));
    shared = {step.is_left_out(), static_cast<State>(each.beta1),
              static_cast<State>(1.0 - each.beta1),
              static_cast<State>(1.0 - lr * each.weight_decay),
              static_cast<State>(each.m != nullptr ? lr / correction1 : lr)};
  }
  __syncthreads();
  const auto s = shared;
  if (s.is_left_out) return;
  bool has_outsized = false;
  for_each_run<kWidth>(chunk, each.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    auto theta = load<kRun>(each.theta + i);
    const auto g = load<kRun>(each.g + i);
    if (each.m == nullptr) {
      for (int k = 0; k < kRun; ++k) {
        theta.values[k] = static_cast<Scalar>(s.decay * static_cast<State>(theta.values[k]) -
                                              s.scale * static_cast<State>(g.values[k]));
      }
    } else {
      auto m = load<kRun>(each.m + i);
      const auto denominator = denominators<kRun>(each, i);
      for (int k = 0; k < kRun; ++k) {
        m.values[k] =
            s.beta1 * m.values[k] + s.one_minus_beta1 * static_cast<State>(g.values[k]);  // M_t
        const State g_hat = s.scale * m.values[k] / denominator.values[k];                // η Ĝ_t
        has_outsized |= is_outsized(g_hat, static_cast<State>(theta.values[k]));
        theta.values[k] =
            static_cast<Scalar>(s.decay * static_cast<State>(theta.values[k]) - g_hat);  // θ_t
      }
      store<kRun>(each.m + i, m);
    }
    store<kRun>(each.theta + i, theta);
  });
  // A minimum is the same in whatever order the blocks come.
  if (__syncthreads_or(has_outsized) != 0 && threadIdx.x == 0 && outsized != nullptr) {
    atomicMin(outsized, static_cast<long long>(each.index));
  }
}

bool has_channels_last(const torch::Tensor& theta) {
  return theta.dim() > 2 && theta.movedim(1, -1).is_contiguous();
}

bool statistics_go_with(const AdaActTensors& tensors) {
  const auto& [theta, g, m, v, sum] = tensors;
  const auto goes_with_m = [&m = m](const torch::Tensor& statistics) {
    return statistics.device() == m.device() && statistics.scalar_type() == m.scalar_type();
  };
  return m.defined() && theta.dim() > 0 &&
         theta.numel() < std::numeric_limits<std::int32_t>::max() &&
         (theta.is_contiguous() || has_channels_last(theta)) && goes_with_m(v) &&
         v.is_contiguous() && v.dim() > 0 && v.size(0) > 0 && theta.size(0) % v.size(0) == 0 &&
         v.numel() * theta.size(0) == theta.numel() * v.size(0) &&
         (!sum.defined() || (goes_with_m(sum) && sum.numel() == v.numel()));
}

template <typename State>
Statistics<State> describe_statistics(const AdaActParameter& parameter, const torch::Tensor& sum,
                                      State* denominator) {
  const auto& theta = parameter.tensors.theta;
  const auto& v = parameter.tensors.v;
  Statistics<State> each{};
  each.sum = sum.defined() ? sum.data_ptr<State>() : nullptr;
  each.v = v.data_ptr<State>();
  each.denominator = denominator;
  each.numel = v.numel();
  each.observations = parameter.observations;
  each.count = static_cast<double>(parameter.count);
  each.beta2 = parameter.beta2;
  each.eps = parameter.eps;
  each.power = parameter.power;
  each.clip_low = parameter.clip_low;
  each.clip_high = parameter.clip_high;
  each.columns = static_cast<std::uint32_t>(v.numel() / v.size(0));
  each.offsets =
      theta.is_contiguous() ? 1 : static_cast<std::uint32_t>(each.columns / theta.size(1));
  return each;
}

template <typename Scalar>
Update<Scalar> describe_update(const AdaActParameter& parameter, const SumOf<Scalar>* denominator) {
  const auto& [theta, g, m, v, sum] = parameter.tensors;
  Update<Scalar> each{};
  each.theta = theta.data_ptr<Scalar>();
  each.g = g.data_ptr<Scalar>();
  each.m = m.defined() ? m.data_ptr<SumOf<Scalar>>() : nullptr;
  each.denominator = denominator;
  each.numel = theta.numel();
  each.updates = parameter.updates;
  each.lr = parameter.lr;
  each.beta1 = parameter.beta1;
  each.weight_decay = parameter.weight_decay;
  const auto v_hat = std::clamp(1.0, parameter.clip_low, parameter.clip_high);
  each.constant = std::pow(v_hat, parameter.power) + parameter.eps;
  if (denominator != nullptr) {
    each.columns = static_cast<std::uint32_t>(theta.numel() / theta.size(0));
    each.segment_elements = static_cast<std::uint32_t>(theta.numel() / v.size(0));
  }
  each.group = static_cast<std::int32_t>(parameter.group);
  each.index = static_cast<std::int32_t>(parameter.index);
  each.aligned = aligned_for_runs<16 / sizeof(SumOf<Scalar>)>(each.theta, each.g, each.m);
  return each;
}

template <typename Scalar>
void update_kind(const std::vector<const AdaActParameter*>& parameters, const StepView& step,
                 long long* outsized) {
  using State = SumOf<Scalar>;
  constexpr std::int64_t kStart = 16 / sizeof(State);  // where a vector of denominators may start
  std::int64_t places = 0;
  for (const auto* parameter : parameters) {
    const auto& v = parameter->tensors.v;
    if (v.defined()) places += ceil_div(v.numel(), kStart) * kStart;
  }
  torch::Tensor scratch;
  if (places > 0) {
    scratch = torch::empty({places}, torch::dtype(c10::CppTypeToScalarType<State>::value)
                                         .device(parameters[0]->tensors.theta.device()));
  }
  std::vector<Statistics<State>> statistics;
  std::vector<torch::Tensor> sums;  // alive until they have been read
  std::vector<Update<Scalar>> updates;
  std::int64_t place = 0;
  for (const auto* parameter : parameters) {
    State* denominator = nullptr;
    if (const auto& v = parameter->tensors.v; v.defined()) {
      denominator = scratch.data_ptr<State>() + place;
      place += ceil_div(v.numel(), kStart) * kStart;
      const auto& sum = parameter->tensors.sum;
      sums.push_back(sum.defined() ? sum.contiguous() : sum);
      statistics.push_back(describe_statistics<State>(*parameter, sums.back(), denominator));
    }
    updates.push_back(describe_update<Scalar>(*parameter, denominator));
  }
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto statistics_chunks = chunking_of(statistics);
  launch_chunks(statistics, statistics_chunks, [&](const auto& list, unsigned blocks) {
    update_statistics<State><<<blocks, kThreads, 0, stream>>>(list, statistics_chunks.size, step);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  const auto chunks = chunking_of(updates);
  launch_chunks(updates, chunks, [&](const auto& list, unsigned blocks) {
    update_parameters<Scalar><<<blocks, kThreads, 0, stream>>>(list, chunks.size, step, outsized);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

bool can_update_cuda(const AdaActParameter& parameter) {
  const auto& [theta, g, m, v, sum] = parameter.tensors;
  return theta.is_cuda() && has_kernels(theta.scalar_type()) &&
         goes_with(theta, g, theta.scalar_type()) &&
         (!m.defined() || goes_with(theta, m, sum_dtype(theta))) &&
         (!v.defined() || statistics_go_with(parameter.tensors));
}

void adaact_update_cuda(const std::vector<AdaActParameter>& parameters, const DeviceStep* step,
                        const torch::Tensor& outsized) {
  static_assert(sizeof(long long) == sizeof(std::int64_t), "atomics are on long long");
  const StepView view(step);
  auto* noted = outsized.defined() ? reinterpret_cast<long long*>(outsized.data_ptr<std::int64_t>())
                                   : nullptr;
  for (const auto& kind : by_kind(parameters)) {
    const c10::cuda::CUDAGuard device(kind.device);
    AT_DISPATCH_FLOATING_TYPES_AND2(torch::kHalf, torch::kBFloat16, kind.dtype,
                                    "adaact_update_cuda",
                                    [&] { update_kind<scalar_t>(kind.parameters, view, noted); });
  }
  bump_versions(parameters);
}

namespace {

/// V and what was observed for it in this step; false for what only the plain path knows.
bool describe_moments(AdaActParameter& update, const PlannedUpdate& planned,
                      const RowMoments& moments) {
  const auto& theta = update.tensors.theta;
  const auto rows = theta.size(0);
  if (planned.seen.size() > 1) return false;
  if (!moments.segments.empty() && !cover_all_rows_evenly(moments.segments, rows)) return false;
  auto count = static_cast<std::int64_t>(moments.segments.size());
  if (!planned.seen.empty()) {
    const auto& seen = *planned.seen.front();
    const auto groups = seen.moment.sum.size(0);
    const bool whole = seen.row_begin == 0 && seen.row_end == rows && rows % groups == 0;
    if (!whole || (count != 0 && count != groups)) return false;
    count = groups;
    update.tensors.sum = seen.moment.sum.to(theta.device(), sum_dtype(theta));
    update.count = seen.moment.count;
  }
  update.tensors.v = moments.ema.defined() ? following(moments.ema, theta)
                                           : torch::zeros({count, theta.numel() / rows},
                                                          theta.options().dtype(sum_dtype(theta)));
  update.observations = moments.segments.empty() ? 0 : moments.segments.front().observations;
  return true;
}

std::optional<AdaActParameter> describe(const PlannedUpdate& planned, std::int64_t counted) {
  const auto& options = *planned.of.options;
  const auto known = planned.of.state != nullptr ? *planned.of.state : AdaActParamState();
  AdaActParameter update;
  auto& tensors = update.tensors;
  tensors.theta = planned.theta.detach();
  tensors.g = laid_out_as(tensors.theta, planned.theta.grad(), planned.theta.scalar_type());
  if (planned.has_m()) tensors.m = state_laid_out_as(tensors.theta, known.exp_avg());
  if (planned.rule == Rule::ScaledByInput && !describe_moments(update, planned, known.moments())) {
    return std::nullopt;
  }
  update.lr = options.lr();
  update.group = planned.of.group;
  std::tie(update.beta1, update.beta2) = options.betas();
  update.eps = options.eps();
  update.weight_decay = options.weight_decay();
  update.power = options.power();
  std::tie(update.clip_low, update.clip_high) = options.clip_range();
  update.updates = known.step() - counted;
  update.index = static_cast<std::int64_t>(planned.of.index);
  if (tensors.sum.defined()) update.observations -= counted;  // else it stays as it is
  if (!can_update_cuda(update)) return std::nullopt;
  return update;
}

std::vector<RowSegment> even_segments(std::int64_t rows, std::int64_t count) {
  std::vector<RowSegment> segments;
  const auto length = rows / count;
  for (std::int64_t s = 0; s < count; ++s) segments.push_back({s * length, (s + 1) * length, 0});
  return segments;
}

}  // namespace

std::optional<std::vector<AdaActParameter>> describe_for_gpu(const std::vector<PlannedUpdate>& plan,
                                                             std::int64_t counted) {
  std::vector<AdaActParameter> updates;
  for (const auto& planned : plan) {
    if (planned.rule == Rule::None && planned.moves_v()) return std::nullopt;
    if (!planned.is_elementwise()) continue;
    if (!planned.theta.is_cuda()) return std::nullopt;
    auto update = describe(planned, counted);
    if (!update) return std::nullopt;
    updates.push_back(*std::move(update));
  }
  return updates;
}

void apply_on_gpu(std::vector<PlannedUpdate>& plan, const std::vector<AdaActParameter>& updates,
                  const DeviceStep* step, const torch::Tensor& outsized) {
  if (updates.empty()) return;
  adaact_update_cuda(updates, step, outsized);
  auto update = updates.begin();
  for (auto& planned : plan) {
    if (!planned.is_elementwise()) continue;
    const auto& tensors = (update++)->tensors;
    if (tensors.m.defined()) planned.state->exp_avg(tensors.m);
    if (!tensors.v.defined()) continue;
    auto& moments = planned.state->moments();
    moments.ema = tensors.v;
    if (moments.segments.empty()) {
      moments.segments = even_segments(tensors.theta.size(0), tensors.v.size(0));
    }
  }
}

}  // namespace adaact
