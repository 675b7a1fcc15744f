#include <adaact/data/loader.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <adaact/data/shuffle.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include "data/batch_buffers.h"
#include "data/batch_parts.h"
#include "data/encoded_part.h"
#include "data/image_batch_maker.h"
#include "data/image_steps.h"
#include "data/mix_images.h"
#include "data/ordered_prefetch.h"
#include "data/side_stream.h"

namespace adaact {
namespace {

using Clock = std::chrono::steady_clock;

/// A buffer of which the first `size` samples are filled.
struct FilledBuffer {
  BatchBuffer buffer;
  std::int64_t size = 0;
  std::int64_t whole = 0;  // samples of all parts of the batch
  std::int64_t begin = 0;  // of those the first that is this part's
  ImageBatchPlan
      plan;  // how it is mixed; where images are finished at once, all that is drawn for them
  std::vector<EncodedPart> encoded;  // those that have yet to be decoded
};

void check(const MixOptions& options) {
  constexpr double kLeast = 1e-3;  // of much smaller ones the logarithms of the shares overflow
  for (const double alpha : {options.mixup_alpha, options.cutmix_alpha}) {
    TORCH_CHECK(alpha == 0.0 || (alpha >= kLeast && std::isfinite(alpha)),
                "Loader: alpha of mixup or cutmix is ", alpha, ", expected 0 or >= ", kLeast);
  }
}

}  // namespace

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        steps_(*dataset_, options),
        maker_(options.finishes_at_once() ? make_maker() : nullptr),
        decode_(maker_ && options.decode_at_once ? make_decoder() : nullptr),
        beside_(options.device.is_cuda() ? std::make_unique<SideStream>(options.device) : nullptr),
        buffers_(dataset_->shape(), largest_part(), maker_ ? torch::kByte : torch::kFloat,
                 maker_ ? ImageLayout::Planes : options.layout, options.pin_memory,
                 options.prefetch + 2) {}

  const Dataset& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }

  std::int64_t batches_per_epoch() const {
    const auto whole = dataset_->size() / options_.batch_size;
    const bool has_rest = dataset_->size() % options_.batch_size != 0;
    return has_rest && !options_.drop_last ? whole + 1 : whole;
  }

  void start(std::int64_t epoch, std::int64_t first_batch) {
    constexpr std::int64_t kLastEpoch = std::numeric_limits<std::uint32_t>::max();
    TORCH_CHECK(epoch >= 0 && epoch <= kLastEpoch, "Loader: epoch is ", epoch, ", expected 0 to ",
                kLastEpoch);
    TORCH_CHECK(first_batch >= 0 && first_batch <= batches_per_epoch(), "Loader: first_batch is ",
                first_batch, ", expected 0 to ", batches_per_epoch());
    started_ = false;  // until all of the below has succeeded
    failure_ = nullptr;
    prefetch_.reset();  // its threads read what changes now
    if (options_.shuffle) {
      order_ = shuffled_order(dataset_->size(), options_.seed, epoch);
    } else {
      order_.resize(static_cast<std::size_t>(dataset_->size()));
      std::iota(order_.begin(), order_.end(), 0);
    }
    epoch_ = epoch;
    next_batch_ = first_batch;
    if (options_.workers > 0) {
      prefetch_ = std::make_unique<OrderedPrefetch<FilledBuffer>>(
          first_batch, batches_per_epoch(), options_.workers, options_.prefetch,
          [this](std::int64_t batch, const std::atomic<bool>& abandoned) {
            return fill(batch, abandoned);
          });
    }
    started_ = true;
  }

  std::optional<Batch> next() {
    TORCH_CHECK(started_, "Loader: next() was called before start()");
    if (next_batch_ == batches_per_epoch()) return std::nullopt;
    if (failure_) std::rethrow_exception(failure_);
    auto filled = wait_for_next();
    const auto images = finished(filled);
    // Detached: in-place operations on a plain view would make the buffer part of somebody's graph.
    const auto first = [&](const torch::Tensor& all) {
      return all.narrow(0, 0, filled.size).detach();
    };
    Batch batch{images,
                first(filled.buffer.labels),
                first(filled.buffer.samples),
                epoch_,
                next_batch_++,
                filled.whole,
                filled.begin};
    if (options_.mix.any()) {
      batch.partner_labels = first(filled.buffer.partner_labels);
      batch.own_share = filled.plan.mix.own_share;
    }
    buffers_.lend(filled.buffer);
    return batch;
  }

  double seconds_waited() const { return std::chrono::duration<double>(waited_).count(); }

 private:
  std::unique_ptr<ImageBatchMaker> make_maker() const {
    const auto channels = dataset_->shape().channels;
    const ImageBatchFormat format{
        dataset_->shape(), torch::tensor(steps_.values()).view({channels, 256}).to(options_.dtype),
        options_.layout, options_.seed};
    return options_.device.is_cuda() ? image_batch_maker_cuda(format, options_.device)
                                     : image_batch_maker_reference(format);
  }

  DecodeParts make_decoder() const {
    if (!options_.device.is_cuda()) return decode_parts_reference;
    return [decoder = std::make_shared<JpegBatchDecoder>(options_.device)](
               const std::vector<JpegPart>& parts, const torch::Tensor& pixels) {
      return decoder->decode(parts, pixels);
    };
  }

  /// The images of a batch as next() hands them out. What went wrong with one goes wrong again until start().
  torch::Tensor finished(const FilledBuffer& filled) {
    // Detached: in-place operations on a plain view would make the buffer part of somebody's graph.
    const auto images = filled.buffer.images.narrow(0, 0, filled.size).detach();
    if (!maker_) return images;
    const auto begin = Clock::now();
    try {
      const auto finish = [&] { return maker_->finish(bytes_there(filled, images), filled.plan); };
      const auto result = beside_ ? beside_->run(finish) : finish();
      waited_ += Clock::now() - begin;  // what the host does in it the step waits for
      return result;
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  /// Bytes of images in their size, where they are finished.
  torch::Tensor bytes_there(const FilledBuffer& filled, const torch::Tensor& images) const {
    const bool none_is_here = static_cast<std::int64_t>(filled.encoded.size()) == filled.size;
    const auto there = none_is_here
                           ? torch::empty_like(images, images.options().device(options_.device))
                           : images.to(options_.device, /*non_blocking=*/true);
    if (!filled.encoded.empty()) decode(filled, images, there);
    return there;
  }

  /// Decodes and scales what has been left to this; what turns out not to be decodable is the CPU's again.
  void decode(const FilledBuffer& filled, const torch::Tensor& images,
              const torch::Tensor& there) const {
    std::vector<JpegPart> parts;
    std::vector<ScalePlan> scaled;
    std::int64_t bytes = 0;
    for (const auto& [image, file, jpeg, part] : filled.encoded) {
      parts.push_back({file.data(), jpeg, part.box, bytes});
      scaled.push_back(
          {image, bytes, part.box.height, part.box.width, 0, part.filter, part.mirrored});
      bytes += part.box.height * part.box.width * 3;
    }
    const auto pixels = torch::empty({bytes}, there.options());
    const auto not_decoded = decode_(parts, pixels);
    if (not_decoded.size() == parts.size() && parts.size() > 1) {
      TORCH_WARN_ONCE("Loader: of ", parts.size(), " JPEGs none was decoded on ", there.device(),
                      "; the CPU decodes them");
    }
    for (auto i = not_decoded.rbegin(); i != not_decoded.rend(); ++i) {
      crop_anew(filled, scaled[*i].image, images, there);
      scaled.erase(scaled.begin() + static_cast<std::ptrdiff_t>(*i));
    }
    maker_->scale(pixels, std::move(scaled), there);
  }

  void crop_anew(const FilledBuffer& filled, std::int64_t image, const torch::Tensor& images,
                 const torch::Tensor& there) const {
    const auto sample = filled.buffer.samples.data_ptr<std::int64_t>()[image];
    const auto bytes = images[image];
    ImageSteps::Scratch scratch;
    steps_.crop(epoch_, sample, scratch, bytes.data_ptr<std::uint8_t>());
    there[image].copy_(bytes);
  }

  std::int64_t largest_part() const {
    const auto whole = std::min(options_.batch_size, dataset_->size());
    const std::int64_t together = options_.mix.any() ? 2 : 1;
    const auto groups = (whole + together - 1) / together;
    return together * ((groups + options_.parts - 1) / options_.parts);
  }

  std::int64_t begin_of_part(std::int64_t whole, std::int64_t part) const {
    return options_.mix.any() ? paired_part_begin(whole, part, options_.parts)
                              : part_begin(whole, part, options_.parts);
  }

  FilledBuffer wait_for_next() {
    const std::atomic<bool> never_abandoned{false};
    const bool ready = prefetch_ && prefetch_->ready();
    if (ready) return *prefetch_->next();
    const auto begin = Clock::now();
    auto filled = prefetch_ ? *prefetch_->next() : fill(next_batch_, never_abandoned);
    waited_ += Clock::now() - begin;
    return filled;
  }

  FilledBuffer fill(std::int64_t batch, const std::atomic<bool>& abandoned) {
    const auto batch_begin = batch * options_.batch_size;
    const auto whole = std::min(options_.batch_size, dataset_->size() - batch_begin);
    const auto before = begin_of_part(whole, options_.part);
    const auto size = begin_of_part(whole, options_.part + 1) - before;
    FilledBuffer filled{buffers_.take(), size, whole, before, {}, {}};
    auto* labels = filled.buffer.labels.data_ptr<std::int64_t>();
    auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < size; ++i) {
      const auto slot = before + i;
      const auto position = options_.mix.any() ? position_of_slot(slot, whole) : slot;
      samples[i] = order_[static_cast<std::size_t>(batch_begin + position)];
      labels[i] = dataset_->label(samples[i]);
    }
    if (options_.mix.any()) pair_up(filled, batch);
    if (maker_) {
      fill_with_bytes(filled, abandoned);
    } else if (options_.mix.any()) {
      fill_mixed(filled, abandoned);
    } else {
      fill_unmixed(filled, abandoned);
    }
    return filled;
  }

  /// Partners are neighbours; of an odd number the last image has none.
  void pair_up(FilledBuffer& filled, std::int64_t batch) const {
    const auto& shape = dataset_->shape();
    filled.plan.mixed = true;
    filled.plan.mix = draw_mix(options_.mix, options_.seed, static_cast<std::uint32_t>(epoch_),
                               static_cast<std::uint32_t>(batch), shape.height, shape.width);
    const auto* labels = filled.buffer.labels.data_ptr<std::int64_t>();
    auto* partner_labels = filled.buffer.partner_labels.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < filled.size; ++i) {
      const auto partner = i ^ 1;
      partner_labels[i] = labels[partner < filled.size ? partner : i];
    }
  }

  /// The rest is up to next().
  void fill_with_bytes(FilledBuffer& filled, const std::atomic<bool>& abandoned) const {
    const auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    auto* bytes = filled.buffer.images.data_ptr<std::uint8_t>();
    ImageSteps::Scratch scratch;
    for (std::int64_t i = 0; i < filled.size && !abandoned; ++i) {
      auto part = decode_ ? steps_.encoded_part_of(epoch_, samples[i]) : std::nullopt;
      if (part) {
        part->image = i;
        filled.encoded.push_back(std::move(*part));
      } else {
        steps_.crop(epoch_, samples[i], scratch, bytes + i * dataset_->shape().bytes());
      }
    }
    auto plan = plan_images(options_.augment, dataset_->shape(), options_.seed,
                            static_cast<std::uint32_t>(epoch_), {samples, samples + filled.size});
    plan.mixed = filled.plan.mixed;
    plan.mix = filled.plan.mix;
    filled.plan = std::move(plan);
  }

  void fill_unmixed(const FilledBuffer& filled, const std::atomic<bool>& abandoned) const {
    const auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    auto* image = filled.buffer.images.data_ptr<float>();
    ImageSteps::Scratch scratch;
    for (std::int64_t i = 0; i < filled.size && !abandoned; ++i) {
      steps_.write(epoch_, samples[i], scratch, image + i * dataset_->shape().bytes());
    }
  }

  void fill_mixed(const FilledBuffer& filled, const std::atomic<bool>& abandoned) const {
    const auto& shape = dataset_->shape();
    const auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    auto* image = filled.buffer.images.data_ptr<float>();
    ImageSteps::Scratch scratch;
    std::vector<std::uint8_t> pair(static_cast<std::size_t>(2 * shape.bytes()));
    for (std::int64_t i = 0; i < filled.size && !abandoned; i += 2) {
      const auto count = std::min<std::int64_t>(2, filled.size - i);
      for (std::int64_t j = 0; j < count; ++j) {
        steps_.make_bytes(epoch_, samples[i + j], scratch, pair.data() + j * shape.bytes());
      }
      if (count == 2) mix_pair(filled.plan.mix, shape, pair.data(), pair.data() + shape.bytes());
      for (std::int64_t j = 0; j < count; ++j) {
        steps_.finish(epoch_, samples[i + j], pair.data() + j * shape.bytes(),
                      image + (i + j) * shape.bytes());
      }
    }
  }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const ImageSteps steps_;
  const std::unique_ptr<ImageBatchMaker> maker_;  // null where images are finished one by one
  const DecodeParts decode_;                      // likewise, where all are decoded one by one
  const std::unique_ptr<SideStream> beside_;      // of a GPU
  BatchBuffers buffers_;
  std::vector<std::int64_t> order_;
  std::int64_t epoch_ = 0;
  std::int64_t next_batch_ = 0;
  bool started_ = false;
  std::exception_ptr failure_;  // of finishing the batch that is next
  Clock::duration waited_{0};
  std::unique_ptr<OrderedPrefetch<FilledBuffer>> prefetch_;  // last: its threads use the others
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  TORCH_CHECK(dataset != nullptr, "Loader: there is no data set");
  TORCH_CHECK(options.batch_size > 0, "Loader: batch_size is ", options.batch_size,
              ", expected > 0");
  TORCH_CHECK(options.workers >= 0, "Loader: workers is ", options.workers, ", expected >= 0");
  TORCH_CHECK(options.prefetch > 0, "Loader: prefetch is ", options.prefetch, ", expected > 0");
  TORCH_CHECK(options.parts > 0, "Loader: parts is ", options.parts, ", expected > 0");
  TORCH_CHECK(options.part >= 0 && options.part < options.parts, "Loader: part is ", options.part,
              ", expected 0 to ", options.parts - 1);
  TORCH_CHECK(!options.pin_memory || torch::cuda::is_available(),
              "Loader: pin_memory is true, expected false where there is no GPU");
  TORCH_CHECK(!options.drop_last || dataset->size() >= options.batch_size,
              "Loader: with drop_last nothing remains of ", dataset->size(),
              " samples; batch_size is ", options.batch_size);
  check(options.mix);
  const bool known = options.dtype == torch::kFloat || options.dtype == torch::kBFloat16 ||
                     options.dtype == torch::kHalf;
  TORCH_CHECK(known && (options.dtype == torch::kFloat || options.finishes_at_once()),
              "Loader: dtype is ", options.dtype,
              ", expected Float or, where images are finished at once, BFloat16 or Half");
  impl_ = std::make_unique<Impl>(std::move(dataset), options);
}

Loader::~Loader() = default;

void Loader::start(std::int64_t epoch, std::int64_t first_batch) {
  impl_->start(epoch, first_batch);
}

std::optional<Batch> Loader::next() { return impl_->next(); }

const Dataset& Loader::dataset() const { return impl_->dataset(); }
const LoaderOptions& Loader::options() const { return impl_->options(); }
std::int64_t Loader::batches_per_epoch() const { return impl_->batches_per_epoch(); }

double Loader::seconds_waited() const { return impl_->seconds_waited(); }

}  // namespace adaact
