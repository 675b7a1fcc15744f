#include "kernels/convert_many_cuda.h"

#include <algorithm>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels/memory_layout.h"
#include "kernels/tensor_chunks.cuh"

namespace adaact {
namespace {

using namespace many_tensors;

template <typename From, typename To>
struct Conversion {
  /// A run has 16 bytes on the wider side.
  static constexpr int kWidth = 16 / std::max(sizeof(From), sizeof(To));

  const From* from;
  To* to;
  std::int64_t numel;
  bool aligned;
};

template <typename From, typename To, typename List>
__global__ void __launch_bounds__(kThreads)
    convert_chunk(const __grid_constant__ List list, const std::int64_t chunk_size) {
  constexpr int kWidth = Conversion<From, To>::kWidth;
  const auto chunk = find_chunk(list, chunk_size);
  const auto& each = list.items[chunk.tensor];
  for_each_run<kWidth>(chunk, each.aligned, [&](auto width, std::int64_t i) {
    constexpr int kRun = decltype(width)::value;
    const auto from = load<kRun>(each.from + i);
    Run<To, kRun> to;
    for (int k = 0; k < kRun; ++k) to.values[k] = static_cast<To>(from.values[k]);
    store<kRun>(each.to + i, to);
  });
}

template <typename From, typename To>
void convert(at::TensorList from, at::TensorList to) {
  using Each = Conversion<From, To>;
  std::vector<Each> conversions;
  conversions.reserve(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].numel() == 0) continue;
    const auto* read = from[i].data_ptr<From>();  // checks the dtype
    auto* written = to[i].data_ptr<To>();
    conversions.push_back(
        {read, written, from[i].numel(), aligned_for_runs<Each::kWidth>(read, written)});
  }
  const auto chunks = chunking_of(conversions);
  launch_chunks(conversions, chunks, [&](const auto& list, unsigned blocks) {
    convert_chunk<From, To>
        <<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(list, chunks.size);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

void check_pair(const torch::Tensor& from, const torch::Tensor& to, torch::Device device) {
  TORCH_CHECK(from.is_cuda() && from.device() == device && to.device() == device,
              "convert_many_cuda: tensors on ", from.device(), " and ", to.device(), ", expected ",
              device);
  TORCH_CHECK(from.sizes() == to.sizes() && from.is_non_overlapping_and_dense() &&
                  to.is_non_overlapping_and_dense() && are_laid_out_alike(from, to),
              "convert_many_cuda: shapes ", from.sizes(), " and ", to.sizes(), " with strides ",
              from.strides(), " and ", to.strides(),
              ", expected the same order in memory without gaps");
}

}  // namespace

void convert_many_cuda(at::TensorList from, at::TensorList to) {
  TORCH_CHECK(from.size() == to.size(), "convert_many_cuda: ", from.size(), " tensors to ",
              to.size());
  if (from.empty()) return;
  const auto device = from[0].device();
  for (std::size_t i = 0; i < from.size(); ++i) check_pair(from[i], to[i], device);
  const c10::cuda::CUDAGuard guard(device);
  const auto of = from[0].scalar_type();
  const auto into = to[0].scalar_type();
  if (of == torch::kFloat32 && into == torch::kBFloat16)
    return convert<float, c10::BFloat16>(from, to);
  if (of == torch::kFloat32 && into == torch::kHalf) return convert<float, c10::Half>(from, to);
  if (of == torch::kBFloat16 && into == torch::kFloat32)
    return convert<c10::BFloat16, float>(from, to);
  if (of == torch::kHalf && into == torch::kFloat32) return convert<c10::Half, float>(from, to);
  TORCH_CHECK(false, "convert_many_cuda: no kernel from ", of, " to ", into);
}

}  // namespace adaact
