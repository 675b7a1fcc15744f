#include "layers/copy_channels_cuda.h"

#include <cstdint>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/ceil_div.h"
#include "kernels/runs.cuh"
#include "layers/layout.h"

namespace adaact {
namespace {

constexpr int kCopyThreads = 256;

/// Rows of which `words` words each are copied; `from_leading` and `to_leading` are how far apart rows are.
struct Rows {
  std::int64_t count;  // of all words
  unsigned words;
  std::int64_t from_leading, to_leading;
};

template <typename Word>
__global__ void __launch_bounds__(kCopyThreads)
    copy_rows(const Rows rows, const Word* from, Word* to) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kCopyThreads + threadIdx.x;
  if (i >= rows.count) return;
  const auto row = i / rows.words;
  const auto word = i - row * rows.words;
  to[row * rows.to_leading + word] = from[row * rows.from_leading + word];
}

}  // namespace

void copy_channels_cuda(const torch::Tensor& from, const torch::Tensor& to) {
  TORCH_INTERNAL_ASSERT(from.sizes() == to.sizes() && from.scalar_type() == to.scalar_type() &&
                        is_laid_out_by_channels(from, /*channels_last=*/true) &&
                        is_laid_out_by_channels(to, /*channels_last=*/true));
  const c10::cuda::CUDAGuard device(from.device());
  const auto bytes = static_cast<std::int64_t>(from.element_size());
  const auto of_row = from.size(1) * bytes;
  const auto from_leading = distance_of_rows(from, /*channels_last=*/true) * bytes;
  const auto to_leading = distance_of_rows(to, /*channels_last=*/true) * bytes;
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Word));
    const auto in_words = [&](std::int64_t number) { return number % kBytes == 0; };
    if (!in_words(of_row) || !in_words(from_leading) || !in_words(to_leading) ||
        !in_words(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from.data_ptr()))) ||
        !in_words(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data_ptr())))) {
      return false;
    }
    const auto words = of_row / kBytes;
    const Rows rows{from.numel() / from.size(1) * words, static_cast<unsigned>(words),
                    from_leading / kBytes, to_leading / kBytes};
    copy_rows<<<static_cast<unsigned>(ceil_div(rows.count, kCopyThreads)), kCopyThreads, 0,
                c10::cuda::getCurrentCUDAStream()>>>(
        rows, static_cast<const Word*>(from.data_ptr()), static_cast<Word*>(to.data_ptr()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return true;
  };
  const bool copied =
      copy(uint4{}) || copy(std::uint64_t{}) || copy(std::uint32_t{}) || copy(std::uint16_t{});
  TORCH_INTERNAL_ASSERT(copied);
}

}  // namespace adaact
