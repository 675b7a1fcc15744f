// Logits are few: what takes time is launches. A few threads have a row, which they read three times: for its
// maximum, for Σ exp(x − max) and for the gradient; after the first time it is in the cache. Few rows are the
// work of one block, which then knows the sum; of many, every block leaves its own, and a second launch adds them up.

#include "layers/cross_entropy_cuda.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

constexpr int kThreadsAlone = 1024;
constexpr std::int64_t kMostElementsAlone = 1 << 12;
/// A block that is one among many has few threads, so that the rows of a usual batch reach all multiprocessors.
constexpr int kThreadsAmongMany = 64;
constexpr std::int64_t kMostBlocks = 1024;
constexpr int kThreadsOfSum = 256;

template <typename Scalar>
struct Rows {
  using Sum = SumOf<Scalar>;
  const Scalar* logits;
  std::int64_t stride;  // from row to row of the logits
  const std::int64_t* labels;
  Scalar* gradient;
  std::int64_t rows;
  int classes;
  int lanes;  // threads of a row: a power of two, at most a warp
  double smoothing, divisor;
  double* partials;  // (blocks, 2): loss and hits of a block's rows; null: there is one block
  Sum* loss;
  std::int64_t* hits;
};

/// A sum over threads whose numbers differ in the bits below `lanes`; all of them have it.
template <typename Sum>
__device__ Sum lanes_sum(Sum value, int lanes) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, apart);
  }
  return value;
}

/// The sum over a block in a fixed order; its first thread has it.
__device__ double block_total(double value) {
  __shared__ double of_warp[32];
  value = lanes_sum(value, 32);
  __syncthreads();  // of_warp may still be in use by the sum before
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0.0;
  if (threadIdx.x == 0) {
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += of_warp[warp];
  }
  return total;
}

/// The best of some classes.
template <typename Sum>
struct Best {
  Sum logit = -std::numeric_limits<Sum>::infinity();
  int number = std::numeric_limits<int>::max();

  /// Of equal logits the first class is before the others, and NaN before all numbers, as argmax() has it.
  __device__ bool is_after(const Best& other) const {
    if (isnan(logit) != isnan(other.logit)) return isnan(other.logit);
    if (isnan(logit) || logit == other.logit) return number > other.number;
    return logit < other.logit;
  }
};

template <typename Sum>
__device__ Best<Sum> best_of_lanes(Best<Sum> best, int lanes) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    const Best<Sum> other{__shfl_xor_sync(0xffffffffU, best.logit, apart),
                          __shfl_xor_sync(0xffffffffU, best.number, apart)};
    if (best.is_after(other)) best = other;
  }
  return best;
}

template <typename Sum>
__device__ void write_result(double loss, double hits, double divisor, Sum* to_loss,
                             std::int64_t* to_hits) {
  *to_loss = static_cast<Sum>(loss / divisor);
  *to_hits = static_cast<std::int64_t>(hits);
}

template <typename Scalar, int kThreads>
__global__ void __launch_bounds__(kThreads) rate_rows(const Rows<Scalar> pass) {
  using Sum = SumOf<Scalar>;
  constexpr auto kNan = std::numeric_limits<Sum>::quiet_NaN();
  const int lane = static_cast<int>(threadIdx.x) % pass.lanes;
  const int rows_at_once = kThreads / pass.lanes;
  const auto smoothing = static_cast<Sum>(pass.smoothing);
  const auto of_others = static_cast<Sum>(pass.smoothing / pass.classes);
  const auto of_label = static_cast<Sum>(1.0 - pass.smoothing + pass.smoothing / pass.classes);
  const auto share = static_cast<Sum>(1.0 / pass.divisor);
  double loss = 0.0;
  double hits = 0.0;  // exact: far below 2⁵³
  const auto step = static_cast<std::int64_t>(gridDim.x) * rows_at_once;
  // All threads of a warp come along to the last row, because they exchange values.
  for (auto first = static_cast<std::int64_t>(blockIdx.x) * rows_at_once; first < pass.rows;
       first += step) {
    const auto row = first + static_cast<int>(threadIdx.x) / pass.lanes;
    const bool has_row = row < pass.rows;
    const int classes = has_row ? pass.classes : 0;
    const auto* x = pass.logits + (has_row ? row * pass.stride : 0);
    Best<Sum> best;
#pragma unroll 4
    for (int k = lane; k < classes; k += pass.lanes) {
      const Best<Sum> other{static_cast<Sum>(x[k]), k};
      if (best.is_after(other)) best = other;
    }
    best = best_of_lanes(best, pass.lanes);
    Sum exponentials = 0;
    Sum below = 0;  // Σ max − x
#pragma unroll 4
    for (int k = lane; k < classes; k += pass.lanes) {
      const auto apart = static_cast<Sum>(x[k]) - best.logit;
      exponentials += exp(apart);
      below -= apart;
    }
    exponentials = lanes_sum(exponentials, pass.lanes);
    if (pass.smoothing != 0.0) below = lanes_sum(below, pass.lanes);
    if (!has_row) continue;

    const auto label = pass.labels[row];
    const bool is_class = label >= 0 && label < classes;
    if (lane == 0) {
      const auto log_sum = log(exponentials);
      Sum of_row = kNan;
      if (is_class) {
        of_row = best.logit - static_cast<Sum>(x[label]) + log_sum;
        if (pass.smoothing != 0.0) {  // an infinite sum times zero would not be zero
          of_row =
              (1 - smoothing) * of_row + smoothing * (below / static_cast<Sum>(classes) + log_sum);
        }
      }
      loss += of_row;
      hits += best.number == label ? 1.0 : 0.0;
    }
    auto* gradient = pass.gradient + row * classes;
    const auto inverse = is_class ? 1 / exponentials : kNan;
#pragma unroll 4
    for (int k = lane; k < classes; k += pass.lanes) {
      const auto probability = exp(static_cast<Sum>(x[k]) - best.logit) * inverse;
      const auto target = k == label ? of_label : of_others;
      gradient[k] = static_cast<Scalar>((probability - target) * share);
    }
  }
  loss = block_total(loss);
  hits = block_total(hits);
  if (threadIdx.x != 0) return;
  if (pass.partials == nullptr) {
    write_result(loss, hits, pass.divisor, pass.loss, pass.hits);
  } else {
    pass.partials[2 * blockIdx.x] = loss;
    pass.partials[2 * blockIdx.x + 1] = hits;
  }
}

/// Runs as one block.
template <typename Sum>
__global__ void __launch_bounds__(kThreadsOfSum)
    add_up_rows(const double* partials, int blocks, double divisor, Sum* to_loss,
                std::int64_t* to_hits) {
  double loss = 0.0;
  double hits = 0.0;
  for (int block = static_cast<int>(threadIdx.x); block < blocks; block += kThreadsOfSum) {
    loss += partials[2 * block];
    hits += partials[2 * block + 1];
  }
  loss = block_total(loss);
  hits = block_total(hits);
  if (threadIdx.x == 0) write_result(loss, hits, divisor, to_loss, to_hits);
}

/// How many lanes share a row: so many that each has four classes or fewer, if a warp has enough of them.
int lanes_for(int classes) {
  int lanes = 1;
  while (lanes < 32 && 4 * lanes < classes) lanes *= 2;
  return lanes;
}

template <typename Scalar>
void rate(Rows<Scalar> pass, const torch::Tensor& logits) {
  const auto stream = c10::cuda::getCurrentCUDAStream();
  if (pass.rows * pass.classes <= kMostElementsAlone) {
    rate_rows<Scalar, kThreadsAlone><<<1, kThreadsAlone, 0, stream>>>(pass);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
  const auto blocks =
      static_cast<int>(std::min(kMostBlocks, ceil_div(pass.rows, kThreadsAmongMany / pass.lanes)));
  const auto partials = torch::empty({blocks, 2}, logits.options().dtype(torch::kFloat64));
  pass.partials = partials.template data_ptr<double>();
  rate_rows<Scalar, kThreadsAmongMany>
      <<<static_cast<unsigned>(blocks), kThreadsAmongMany, 0, stream>>>(pass);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  add_up_rows<<<1, kThreadsOfSum, 0, stream>>>(pass.partials, blocks, pass.divisor, pass.loss,
                                               pass.hits);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

CrossEntropy cross_entropy_cuda(const torch::Tensor& given_logits,
                                const torch::Tensor& given_labels, double label_smoothing,
                                double divisor) {
  TORCH_CHECK(given_logits.dim() == 2 && given_logits.numel() > 0 &&
                  given_logits.size(1) <= std::numeric_limits<int>::max() &&
                  given_labels.dim() == 1 && given_labels.size(0) == given_logits.size(0) &&
                  given_labels.scalar_type() == torch::kLong &&
                  given_labels.device() == given_logits.device(),
              "cross_entropy_cuda: labels ", given_labels.sizes(), " ", given_labels.scalar_type(),
              " on ", given_labels.device(), " for logits ", given_logits.sizes(), " on ",
              given_logits.device());
  const torch::NoGradGuard no_grad;
  const c10::cuda::CUDAGuard device(given_logits.device());
  const bool rows_are_dense = given_logits.size(1) == 1 || given_logits.stride(1) == 1;
  const auto logits = rows_are_dense ? given_logits : given_logits.contiguous();
  const auto labels = given_labels.contiguous();
  const auto options = logits.options().requires_grad(false);
  CrossEntropy result;
  result.loss = torch::empty({}, options.dtype(sum_dtype(logits)));
  result.hits = torch::empty({}, options.dtype(torch::kLong));
  result.gradient = torch::empty(logits.sizes(), options);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(),
                                  "cross_entropy_cuda", [&] {
                                    Rows<scalar_t> pass{};
                                    pass.logits = logits.data_ptr<scalar_t>();
                                    pass.stride = logits.stride(0);
                                    pass.labels = labels.data_ptr<std::int64_t>();
                                    pass.gradient = result.gradient.data_ptr<scalar_t>();
                                    pass.rows = logits.size(0);
                                    pass.classes = static_cast<int>(logits.size(1));
                                    pass.lanes = lanes_for(pass.classes);
                                    pass.smoothing = label_smoothing;
                                    pass.divisor = divisor;
                                    pass.loss = result.loss.data_ptr<SumOf<scalar_t>>();
                                    pass.hits = result.hits.data_ptr<std::int64_t>();
                                    rate(pass, logits);
                                  });
  return result;
}

}  // namespace adaact
