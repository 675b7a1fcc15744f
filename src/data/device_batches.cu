// The kernels of DeviceBatches. Shuffle, crop, flip, normalisation, rounding and layout are one pass:
// a thread finds the bytes of 16 bytes of output, looks their values up in shared memory and writes
// them at once. Values were rounded to the output's dtype when the table was made, so that the
// kernel moves words and knows no arithmetic of its own that could differ from the CPU's.

#include "data/device_batches_kernels.h"

#include <algorithm>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "data/batch_parts.h"

namespace adaact {
namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kBlocksPerMultiprocessor = 12;  // at least: leaves 40 registers, which are enough
constexpr int kStoreBytes = 16;               // the widest

/// Words that are written at once.
template <typename Word, int Width>
struct alignas(sizeof(Word) * Width) Words {
  Word each[Width];
};

/// Where an image of the batch comes from. Row y and column x of the crop are row y + down and
/// column x + right of the sample; what lies outside is black.
struct Source {
  std::int64_t sample;  // -1 after the end of the epoch
  const std::uint8_t* pixels;
  std::int32_t down;
  std::int32_t right;
  bool flip;
};

/// Every block has a cursor of its own, so that moving on needs no agreement between blocks.
__device__ EpochCursor take_cursor(const BatchJob& job) {
  auto* mine = job.cursors + std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  const EpochCursor cursor = *mine;
  *mine = {cursor.epoch, cursor.batch + 1};
  return cursor;
}

__device__ Source find_source(const BatchJob& job, const EpochCursor& cursor) {
  const auto begin = std::int64_t{cursor.batch} * job.batch_size;
  const auto whole = min(job.batch_size, job.end - begin);
  const auto position = begin + part_begin(whole, job.part, job.parts) + blockIdx.x;
  const auto end = begin + part_begin(whole, job.part + 1, job.parts);
  if (whole <= 0 || position >= end)
    return {-1, job.pixels, job.height, 0, false};  // no row is inside
  const auto sample = job.order == nullptr ? position : job.order[position];
  const auto draw =
      draw_augment(job.augment, job.seed, cursor.epoch, static_cast<std::uint32_t>(sample));
  const auto padding = static_cast<std::int32_t>(job.augment.crop_padding);
  return {sample, job.pixels + sample * (std::int64_t{job.channels} * job.height * job.width),
          draw.top - padding, draw.left - padding, draw.flip};
}

/// A place in an image of the batch, walked in the order of memory.
class Place {
 public:
  __device__ Place(const BatchJob& job, std::uint32_t element) {
    const auto interleaved = static_cast<std::uint32_t>(job.interleaved);
    const auto width = static_cast<std::uint32_t>(job.width);
    const auto height = static_cast<std::uint32_t>(job.height);
    const auto pixel = element / interleaved;
    const auto row = pixel / width;
    const auto plane = row / height;
    lane_ = static_cast<std::int32_t>(element - pixel * interleaved);
    x_ = static_cast<std::int32_t>(pixel - row * width);
    y_ = static_cast<std::int32_t>(row - plane * height);
    plane_ = static_cast<std::int32_t>(plane);
  }

  /// Goes to the next place without branches, across which the compiler would not move the loads of
  /// the next pixels.
  __device__ void advance(const BatchJob& job) {
    plane_ += step(y_, step(x_, step(lane_, 1, job.interleaved), job.width), job.height);
  }

  /// Where the value of this place stands in the table of (C, 256).
  __device__ std::int32_t index_of_value(const BatchJob& job, const Source& source) const {
    const auto row = y_ + source.down;
    const auto column = (source.flip ? job.width - 1 - x_ : x_) + source.right;
    const bool inside = row >= 0 && row < job.height && column >= 0 && column < job.width;
    const auto channel = plane_ + lane_;
    // Outside, any byte of the sample is read and forgotten: loads without a condition are all under
    // way at the same time.
    const auto offset = inside ? (channel * job.height + row) * job.width + column : 0;
    const std::int32_t level = __ldg(source.pixels + offset);
    return channel * kByteLevels + (inside ? level : 0);
  }

 private:
  /// Adds to a digit of a number with the given base; returns the carry.
  __device__ static std::int32_t step(std::int32_t& digit, std::int32_t by, std::int32_t base) {
    digit += by;
    const std::int32_t carry = digit == base ? 1 : 0;
    digit = carry != 0 ? 0 : digit;
    return carry;
  }

  std::int32_t lane_;  // among the interleaved channels
  std::int32_t x_;
  std::int32_t y_;
  std::int32_t plane_;  // of interleaved channels
};

/// Block (i, j) writes part j of image i.
template <typename Word, int Width>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    write_batch(const __grid_constant__ BatchJob job) {
  __shared__ alignas(kStoreBytes) Word values[kMostDeviceChannels * kByteLevels];
  __shared__ Source found;

  // The grid is that of the largest part, because the cursors of all blocks have to move.
  const bool has_image = blockIdx.x < job.size;
  if (threadIdx.x == 0) {
    const auto cursor = take_cursor(job);
    if (has_image) found = find_source(job, cursor);
  }
  if (!has_image) return;
  // The first warp waits for the cursor, the order and the draw; the others fetch the table.
  if (threadIdx.x >= kWarp) {
    const auto count = job.channels * (kByteLevels * static_cast<int>(sizeof(Word)) / kStoreBytes);
    for (int i = threadIdx.x - kWarp; i < count; i += kThreads - kWarp) {
      reinterpret_cast<uint4*>(values)[i] = __ldg(static_cast<const uint4*>(job.values) + i);
    }
  }
  __syncthreads();

  const Source source = found;
  const bool writes_label = blockIdx.y == 0 && threadIdx.x == 0;
  std::int64_t label = -1;  // loaded before the pixels and stored after them, not to wait for it
  if (writes_label && source.sample >= 0) label = job.sample_labels[source.sample];

  const auto elements = static_cast<std::uint32_t>(job.channels * job.height * job.width);
  auto* out = reinterpret_cast<Words<Word, Width>*>(static_cast<Word*>(job.images) +
                                                    std::int64_t{blockIdx.x} * elements);
  for (auto i = blockIdx.y * kThreads + threadIdx.x; i < elements / Width;
       i += gridDim.y * kThreads) {
    Place place(job, i * Width);
    std::int32_t indices[Width];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      indices[k] = place.index_of_value(job, source);
      place.advance(job);
    }
    Words<Word, Width> words;
#pragma unroll
    for (int k = 0; k < Width; ++k) words.each[k] = values[indices[k]];
    out[i] = words;
  }
  if (writes_label) job.labels[blockIdx.x] = label;
}

template <typename Word>
constexpr int kWidest = kStoreBytes / static_cast<int>(sizeof(Word));

template <typename Word>
void launch(const BatchJob& job) {
  const auto elements = std::int64_t{job.channels} * job.height * job.width;
  const bool aligned = elements % kWidest<Word> == 0 &&
                       reinterpret_cast<std::uintptr_t>(job.images) % kStoreBytes == 0;
  const dim3 grid(static_cast<unsigned>(job.largest_part),
                  static_cast<unsigned>(job.blocks_per_image));
  const auto stream = c10::cuda::getCurrentCUDAStream();
  if (aligned) {
    write_batch<Word, kWidest<Word>><<<grid, kThreads, 0, stream>>>(job);
  } else {
    write_batch<Word, 1><<<grid, kThreads, 0, stream>>>(job);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// Blocks that run at the same time on the current GPU.
template <typename Word>
std::int64_t resident_blocks() {
  int device = 0;
  int multiprocessors = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  int wide = 0;
  int narrow = 0;
  C10_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &wide, write_batch<Word, kWidest<Word>>, kThreads, 0));
  C10_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&narrow, write_batch<Word, 1>, kThreads, 0));
  return std::int64_t{multiprocessors} * std::min(wide, narrow);
}

template <typename Word>
std::int64_t blocks_per_image(std::int64_t image_elements, std::int64_t images) {
  const auto width = image_elements % kWidest<Word> == 0 ? kWidest<Word> : 1;
  const auto elements_per_block = std::int64_t{kThreads} * width;
  const auto useful = (image_elements + elements_per_block - 1) / elements_per_block;
  return std::clamp<std::int64_t>(resident_blocks<Word>() / images, 1, useful);
}

__global__ void __launch_bounds__(kThreads)
    set_cursors(EpochCursor* cursors, std::int64_t count, EpochCursor value) {
  const auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) cursors[i] = value;
}

__global__ void __launch_bounds__(kThreads)
    write_shuffle_keys(std::int64_t* keys, std::int64_t size, std::uint64_t seed,
                       std::uint32_t epoch) {
  const auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= size) return;
  const auto random =
      RandomStream(seed, RandomPurpose::Shuffle, epoch, static_cast<std::uint32_t>(i)).block(0);
  const auto key = (std::uint64_t{random.words[1]} << 32) | random.words[0];
  keys[i] = static_cast<std::int64_t>(key ^ (std::uint64_t{1} << 63));
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

std::int64_t blocks_per_image_cuda(std::int64_t image_elements, std::int64_t images,
                                   std::size_t word_bytes) {
  return word_bytes == sizeof(std::uint16_t)
             ? blocks_per_image<std::uint16_t>(image_elements, images)
             : blocks_per_image<std::uint32_t>(image_elements, images);
}

void write_batch_cuda(const BatchJob& job, std::size_t word_bytes) {
  if (word_bytes == sizeof(std::uint16_t)) {
    launch<std::uint16_t>(job);
  } else {
    launch<std::uint32_t>(job);
  }
}

void set_cursors_cuda(EpochCursor* cursors, std::int64_t count, const EpochCursor& value) {
  set_cursors<<<blocks_for(count), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(cursors, count,
                                                                                     value);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void write_shuffle_keys_cuda(std::int64_t* keys, std::int64_t size, std::uint64_t seed,
                             std::uint32_t epoch) {
  write_shuffle_keys<<<blocks_for(size), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      keys, size, seed, epoch);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace adaact
