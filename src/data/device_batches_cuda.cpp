#include <adaact/data/device_batches.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "data/batch_parts.h"
#include "data/device_batches_kernels.h"

namespace adaact {
namespace {

constexpr std::int64_t kMostSamples = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostImageBytes = std::int64_t{1} << 30;  // counted in 32 bits on the GPU
constexpr std::int64_t kLastEpoch = std::numeric_limits<std::uint32_t>::max();

/// A CUDA device with its index; any other is an error.
torch::Device checked(torch::Device device) {
  TORCH_CHECK(device.is_cuda(), "DeviceBatches: device is ", device, ", expected a CUDA device");
  return device.has_index() ? device : torch::Device(torch::kCUDA, c10::cuda::current_device());
}

/// What the options ask for, with a batch no larger than the data.
DeviceBatches::Options checked(const Dataset& dataset, const DeviceBatches::Options& options) {
  const auto& shape = dataset.shape();
  TORCH_CHECK(options.batch_size > 0, "DeviceBatches: batch_size is ", options.batch_size,
              ", expected > 0");
  TORCH_CHECK(options.parts > 0 && options.part >= 0 && options.part < options.parts,
              "DeviceBatches: part is ", options.part, " of ", options.parts,
              ", expected 0 to one less than parts");
  TORCH_CHECK(options.dtype == torch::kFloat || options.dtype == torch::kBFloat16 ||
                  options.dtype == torch::kHalf,
              "DeviceBatches: dtype is ", options.dtype, ", expected Float, BFloat16 or Half");
  TORCH_CHECK(DeviceBatches::knows(options.augment, options.mix),
              "DeviceBatches: the options ask for resized crops, RandAugment, erasing or mixing, "
              "expected no more than crops of the padded image and flips");
  TORCH_CHECK(shape.channels <= kMostDeviceChannels, "DeviceBatches: ", dataset.name(), " has ",
              shape.channels, " channels, expected at most ", kMostDeviceChannels);
  TORCH_CHECK(shape.bytes() <= kMostImageBytes, "DeviceBatches: an image of ", dataset.name(),
              " has ", shape.bytes(), " bytes, expected at most ", kMostImageBytes);
  TORCH_CHECK(dataset.size() > 0 && dataset.size() <= kMostSamples,
              "DeviceBatches: ", dataset.name(), " has ", dataset.size(),
              " samples, expected 1 to ", kMostSamples);
  TORCH_CHECK(!options.drop_last || dataset.size() >= options.batch_size,
              "DeviceBatches: with drop_last nothing remains of ", dataset.size(),
              " samples; batch_size is ", options.batch_size);
  auto result = options;
  result.batch_size = std::min(options.batch_size, dataset.size());
  return result;
}

std::int64_t bytes_of_images(const Dataset& dataset) {
  return dataset.size() * dataset.shape().bytes();
}

std::int64_t free_memory(torch::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

/// (N, C·H·W) kByte.
torch::Tensor allocate_pixels(const Dataset& dataset, torch::Device device) {
  try {
    return torch::empty({dataset.size(), dataset.shape().bytes()},
                        torch::dtype(torch::kByte).device(device));
  } catch (const c10::OutOfMemoryError&) {
    C10_THROW_ERROR(OutOfMemoryError,
                    c10::str("DeviceBatches: the images of ", dataset.name(), " take ",
                             bytes_of_images(dataset), " bytes, expected at most the ",
                             free_memory(device), " that are free on ", device));
  }
}

torch::Tensor upload_pixels(const Dataset& dataset, torch::Device device) {
  constexpr std::int64_t kStagedBytes = std::int64_t{1} << 26;
  constexpr std::int64_t kImagesPerThread = 16;  // at least
  const auto image_bytes = dataset.shape().bytes();
  const auto all = allocate_pixels(dataset, device);
  const auto staged_images =
      std::clamp<std::int64_t>(kStagedBytes / image_bytes, 1, dataset.size());
  const auto staged = torch::empty({staged_images, image_bytes}, torch::kByte);
  auto* bytes = staged.data_ptr<std::uint8_t>();
  for (std::int64_t first = 0; first < dataset.size(); first += staged_images) {
    const auto count = std::min(staged_images, dataset.size() - first);
    at::parallel_for(0, count, kImagesPerThread, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) dataset.read(first + i, bytes + i * image_bytes);
    });
    all.narrow(0, first, count).copy_(staged.narrow(0, 0, count));  // waits: the memory is reused
  }
  return all;
}

torch::Tensor upload_labels(const Dataset& dataset, torch::Device device) {
  auto labels = torch::empty({dataset.size()}, torch::kLong);
  auto* label = labels.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < dataset.size(); ++i) label[i] = dataset.label(i);
  return labels.to(device);
}

/// (C, 256): the Augmenter's values, rounded as the batches would have been.
torch::Tensor upload_values(const Dataset& dataset, const DeviceBatches::Options& options,
                            torch::Device device) {
  const Augmenter augmenter(dataset.shape(), dataset.normalization(), options.augment);
  return torch::tensor(augmenter.values()).to(options.dtype).to(device);
}

}  // namespace

class DeviceBatches::Impl {
 public:
  Impl(const Dataset& dataset, const Options& options, torch::Device device)
      : options_(checked(dataset, options)),
        device_(checked(device)),
        shape_(dataset.shape()),
        samples_(dataset.size()) {
    const c10::cuda::CUDAGuard guard(device_);
    // This may be made while evaluating, in inference mode, and used for training.
    const c10::InferenceMode normal_mode(false);
    values_ = upload_values(dataset, options_, device_);  // first: it checks what is left to check
    pixels_ = upload_pixels(dataset, device_);
    labels_ = upload_labels(dataset, device_);
    blocks_per_image_ =
        blocks_per_image_cuda(shape_.bytes(), largest_part(), values_.element_size());
    if (options_.shuffle) order_ = torch::empty_like(labels_);
    static_assert(sizeof(EpochCursor) == sizeof(std::int64_t));
    cursors_ = torch::empty({blocks_per_image_ * largest_part()}, labels_.options());
  }

  std::int64_t batches_per_epoch() const {
    const auto whole = samples_ / options_.batch_size;
    const bool has_rest = samples_ % options_.batch_size != 0;
    return has_rest && !options_.drop_last ? whole + 1 : whole;
  }

  std::int64_t batch_size(std::int64_t batch) const {
    return part_begin(whole_batch_size(batch), options_.part + 1, options_.parts) -
           images_before(batch);
  }

  std::int64_t images_before(std::int64_t batch) const {
    return part_begin(whole_batch_size(batch), options_.part, options_.parts);
  }

  std::int64_t whole_batch_size(std::int64_t batch) const {
    TORCH_CHECK(batch >= 0 && batch < batches_per_epoch(), "DeviceBatches: batch is ", batch,
                ", expected 0 to ", batches_per_epoch() - 1);
    return std::min(options_.batch_size, samples_ - batch * options_.batch_size);
  }

  void start(std::int64_t epoch, std::int64_t first_batch) {
    TORCH_CHECK(epoch >= 0 && epoch <= kLastEpoch, "DeviceBatches: epoch is ", epoch,
                ", expected 0 to ", kLastEpoch);
    TORCH_CHECK(first_batch >= 0 && first_batch <= batches_per_epoch(),
                "DeviceBatches: first_batch is ", first_batch, ", expected 0 to ",
                batches_per_epoch());
    const c10::cuda::CUDAGuard guard(device_);
    const auto capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx();
    TORCH_CHECK(capturing == c10::cuda::CaptureStatus::None,
                "DeviceBatches: start() was called in the capture of a graph, expected outside: "
                "every replay would begin the same epoch again");
    keep_memory_for_current_stream();
    const EpochCursor cursor{static_cast<std::uint32_t>(epoch),
                             static_cast<std::uint32_t>(first_batch)};
    if (options_.shuffle) shuffle(cursor.epoch);
    set_cursors_cuda(cursors(), cursors_.numel(), cursor);
    started_ = true;
  }

  void enqueue_next(const torch::Tensor& images, const torch::Tensor& labels) const {
    TORCH_CHECK(started_, "DeviceBatches: enqueue_next() was called before start()");
    check_images(images);
    check_labels(labels, images.size(0));
    const c10::cuda::CUDAGuard guard(device_);
    BatchJob job{};
    job.pixels = pixels_.data_ptr<std::uint8_t>();
    job.sample_labels = labels_.data_ptr<std::int64_t>();
    job.order = options_.shuffle ? order_.data_ptr<std::int64_t>() : nullptr;
    job.values = values_.data_ptr();
    job.cursors = cursors();
    job.end = std::min(samples_, batches_per_epoch() * options_.batch_size);
    job.batch_size = options_.batch_size;
    job.part = options_.part;
    job.parts = options_.parts;
    job.largest_part = largest_part();
    job.size = images.size(0);
    job.blocks_per_image = blocks_per_image_;
    job.channels = static_cast<std::int32_t>(shape_.channels);
    job.height = static_cast<std::int32_t>(shape_.height);
    job.width = static_cast<std::int32_t>(shape_.width);
    job.interleaved = options_.channels_last ? job.channels : 1;
    job.augment = options_.augment;
    job.seed = options_.seed;
    job.images = images.data_ptr();
    job.labels = labels.data_ptr<std::int64_t>();
    write_batch_cuda(job, values_.element_size());
  }

  torch::Tensor empty_images(std::int64_t size) const {
    const c10::InferenceMode normal_mode(false);
    return torch::empty({size, shape_.channels, shape_.height, shape_.width},
                        torch::dtype(options_.dtype).device(device_), memory_format());
  }

  torch::Tensor empty_labels(std::int64_t size) const {
    const c10::InferenceMode normal_mode(false);
    return torch::empty({size}, labels_.options());
  }

 private:
  /// At least one, so that there is a block whose cursor moves.
  std::int64_t largest_part() const {
    return (options_.batch_size + options_.parts - 1) / options_.parts;
  }

  torch::MemoryFormat memory_format() const {
    return options_.channels_last ? torch::MemoryFormat::ChannelsLast
                                  : torch::MemoryFormat::Contiguous;
  }

  EpochCursor* cursors() const {
    return reinterpret_cast<EpochCursor*>(cursors_.data_ptr<std::int64_t>());
  }

  /// Writes the order of shuffled_order(): sorted by (key, index), which a stable sort of the keys
  /// gives. Into memory that stays, because captured kernels know its address.
  void shuffle(std::uint32_t epoch) const {
    const auto keys = torch::empty_like(order_);
    write_shuffle_keys_cuda(keys.data_ptr<std::int64_t>(), samples_, options_.seed, epoch);
    order_.copy_(std::get<1>(keys.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false)));
  }

  /// Freed memory may be given to others at once on the stream that it was made on, and batches that
  /// still read it may be under way on this one.
  void keep_memory_for_current_stream() const {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    for (const auto* memory : {&pixels_, &labels_, &values_, &cursors_}) {
      memory->record_stream(stream);
    }
    if (options_.shuffle) order_.record_stream(stream);
  }

  void check_images(const torch::Tensor& images) const {
    const auto whole = batch_size(0);
    const auto last = batch_size(batches_per_epoch() - 1);
    const bool right = images.defined() && images.device() == device_ &&
                       images.scalar_type() == options_.dtype && images.dim() == 4 &&
                       (images.size(0) == whole || images.size(0) == last) &&
                       images.size(1) == shape_.channels && images.size(2) == shape_.height &&
                       images.size(3) == shape_.width && images.is_contiguous(memory_format());
    if (right) return;
    TORCH_CHECK(images.defined(), "DeviceBatches: images are undefined");
    TORCH_CHECK(false, "DeviceBatches: images are ", images.scalar_type(), images.sizes(),
                " with strides ", images.strides(), " on ", images.device(), ", expected ",
                options_.dtype, "[", whole, " or ", last, ", ", shape_.channels, ", ",
                shape_.height, ", ", shape_.width, "] ",
                options_.channels_last ? "in channels-last format" : "contiguous", " on ", device_);
  }

  void check_labels(const torch::Tensor& labels, std::int64_t size) const {
    TORCH_CHECK(labels.defined(), "DeviceBatches: labels are undefined");
    TORCH_CHECK(labels.device() == device_ && labels.scalar_type() == torch::kLong &&
                    labels.dim() == 1 && labels.size(0) == size && labels.is_contiguous(),
                "DeviceBatches: labels are ", labels.scalar_type(), labels.sizes(),
                " with strides ", labels.strides(), " on ", labels.device(), ", expected Long[",
                size, "] contiguous on ", device_);
  }

  const Options options_;
  const torch::Device device_;
  const ImageShape shape_;
  const std::int64_t samples_;
  std::int64_t blocks_per_image_ = 0;
  bool started_ = false;
  torch::Tensor values_;   // (C · 256) of the dtype of the batches
  torch::Tensor pixels_;   // (N, C·H·W) kByte
  torch::Tensor labels_;   // (N) kLong
  torch::Tensor order_;    // (N) kLong, with shuffle
  torch::Tensor cursors_;  // kLong, an EpochCursor each
};

DeviceBatches::DeviceBatches(const Dataset& dataset, const Options& options, torch::Device device)
    : impl_(std::make_unique<Impl>(dataset, options, device)) {}

DeviceBatches::~DeviceBatches() = default;

bool DeviceBatches::fits(const Dataset& dataset, torch::Device device) {
  const auto& shape = dataset.shape();
  return shape.channels <= kMostDeviceChannels && shape.bytes() <= kMostImageBytes &&
         bytes_of_images(dataset) <= free_memory(checked(device)) / 2;
}

std::int64_t DeviceBatches::batches_per_epoch() const { return impl_->batches_per_epoch(); }

std::int64_t DeviceBatches::whole_batch_size(std::int64_t batch) const {
  return impl_->whole_batch_size(batch);
}

std::int64_t DeviceBatches::batch_size(std::int64_t batch) const {
  return impl_->batch_size(batch);
}

std::int64_t DeviceBatches::images_before(std::int64_t batch) const {
  return impl_->images_before(batch);
}

void DeviceBatches::start(std::int64_t epoch, std::int64_t first_batch) {
  impl_->start(epoch, first_batch);
}

void DeviceBatches::enqueue_next(const torch::Tensor& images, const torch::Tensor& labels) {
  impl_->enqueue_next(images, labels);
}

torch::Tensor DeviceBatches::empty_images(std::int64_t size) const {
  return impl_->empty_images(size);
}

torch::Tensor DeviceBatches::empty_labels(std::int64_t size) const {
  return impl_->empty_labels(size);
}

}  // namespace adaact
