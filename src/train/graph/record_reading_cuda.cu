#include "train/graph/record_reading_cuda.h"

#include <cstdint>

#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace adaact {
namespace {

/// Runs as one thread.
template <typename Loss>
__global__ void write_reading(const Loss* loss, const std::int64_t* correct,
                              const double* gradient_norm, double* readings, std::int64_t rows,
                              std::int64_t* next) {
  const auto row = *next;
  if (row < rows) {
    readings[3 * row] = static_cast<double>(*loss);
    readings[3 * row + 1] = static_cast<double>(*correct);
    readings[3 * row + 2] = *gradient_norm;
  }
  *next = row + 1;
}

}  // namespace

void record_reading_cuda(const torch::Tensor& loss, const torch::Tensor& correct,
                         const torch::Tensor& gradient_norm, const torch::Tensor& readings,
                         const torch::Tensor& next) {
  const c10::cuda::CUDAGuard device(readings.device());
  AT_DISPATCH_FLOATING_TYPES(loss.scalar_type(), "record_reading_cuda", [&] {
    write_reading<<<1, 1, 0, c10::cuda::getCurrentCUDAStream()>>>(
        loss.data_ptr<scalar_t>(), correct.data_ptr<std::int64_t>(),
        gradient_norm.data_ptr<double>(), readings.data_ptr<double>(), readings.size(0),
        next.data_ptr<std::int64_t>());
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace adaact
