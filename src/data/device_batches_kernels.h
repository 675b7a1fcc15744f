#pragma once

// What DeviceBatches runs on the GPU. All of it is enqueued on the current stream.

#include <cstddef>
#include <cstdint>

#include <adaact/data/augment.h>

namespace adaact {

/// How many values a byte has.
constexpr std::int32_t kByteLevels = 256;
constexpr std::int32_t kMostDeviceChannels = 4;

/// The batch that comes next.
struct alignas(8) EpochCursor {  // read and written at once
  std::uint32_t epoch;
  std::uint32_t batch;
};

/// One batch: all that its kernel reads and writes. What changes from batch to batch is behind
/// `order` and `cursors`, so that a captured kernel goes on by itself.
struct BatchJob {
  const std::uint8_t* pixels;         // (N, C, H, W)
  const std::int64_t* sample_labels;  // (N)
  const std::int64_t* order;          // (N), the samples of the epoch; null: as they come
  const void* values;                 // (C, 256), what a byte becomes, in words of the output
  EpochCursor* cursors;               // (blocks_per_image, largest_part), one for each block

  std::int64_t end;         // of the epoch, in samples
  std::int64_t batch_size;  // of a whole batch
  std::int64_t part;        // of the batch that is written, of so many:
  std::int64_t parts;
  std::int64_t largest_part;  // in images
  std::int64_t size;          // of the part that is written
  std::int64_t blocks_per_image;

  std::int32_t channels;
  std::int32_t height;
  std::int32_t width;
  std::int32_t
      interleaved;  // channels side by side in the output: 1 for planes, C for channels-last

  AugmentOptions augment;
  std::uint64_t seed;

  void* images;          // (size, C / interleaved, H, W, interleaved)
  std::int64_t* labels;  // (size)
};

/// How many blocks share an image: enough to fill the current GPU with so many images, and not so
/// many that fetching the table of values costs more than the pixels. Also loads the kernels, which
/// a capture might not allow. `word_bytes` is the size of one value of the output: 2 or 4.
std::int64_t blocks_per_image_cuda(std::int64_t image_elements, std::int64_t images,
                                   std::size_t word_bytes);

void write_batch_cuda(const BatchJob& job, std::size_t word_bytes);

void set_cursors_cuda(EpochCursor* cursors, std::int64_t count, const EpochCursor& value);

/// The keys of shuffled_order(), moved so that they sort as signed numbers.
void write_shuffle_keys_cuda(std::int64_t* keys, std::int64_t size, std::uint64_t seed,
                             std::uint32_t epoch);

}  // namespace adaact
