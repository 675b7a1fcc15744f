#include <adaact/data/loader.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <adaact/data/shuffle.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include "data/batch_buffers.h"
#include "data/batch_parts.h"
#include "data/image_steps.h"
#include "data/mix_images.h"
#include "data/ordered_prefetch.h"

namespace adaact {
namespace {

using Clock = std::chrono::steady_clock;

/// A buffer of which the first `size` samples are filled.
struct FilledBuffer {
  BatchBuffer buffer;
  std::int64_t size = 0;
  std::int64_t whole = 0;  // samples of all parts of the batch
  std::int64_t begin = 0;  // of those the first that is this part's
  double own_share = 1.0;
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
        buffers_(dataset_->shape(), largest_part(), options.layout, options.pin_memory,
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
    started_ = false;   // until all of the below has succeeded
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
    auto filled = wait_for_next();
    // Detached: in-place operations on a plain view would make the buffer part of somebody's graph.
    const auto first = [&](const torch::Tensor& all) {
      return all.narrow(0, 0, filled.size).detach();
    };
    Batch batch{first(filled.buffer.images),
                first(filled.buffer.labels),
                first(filled.buffer.samples),
                epoch_,
                next_batch_++,
                filled.whole,
                filled.begin};
    if (options_.mix.any()) {
      batch.partner_labels = first(filled.buffer.partner_labels);
      batch.own_share = filled.own_share;
    }
    buffers_.lend(filled.buffer);
    return batch;
  }

  double seconds_waited() const { return std::chrono::duration<double>(waited_).count(); }

 private:
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
    FilledBuffer filled{buffers_.take(), size, whole, before};
    auto* labels = filled.buffer.labels.data_ptr<std::int64_t>();
    auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < size; ++i) {
      const auto slot = before + i;
      const auto position = options_.mix.any() ? position_of_slot(slot, whole) : slot;
      samples[i] = order_[static_cast<std::size_t>(batch_begin + position)];
      labels[i] = dataset_->label(samples[i]);
    }
    if (options_.mix.any()) {
      fill_mixed(filled, batch, abandoned);
    } else {
      fill_unmixed(filled, abandoned);
    }
    return filled;
  }

  void fill_unmixed(const FilledBuffer& filled, const std::atomic<bool>& abandoned) const {
    const auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    auto* image = filled.buffer.images.data_ptr<float>();
    ImageSteps::Scratch scratch;
    for (std::int64_t i = 0; i < filled.size && !abandoned; ++i) {
      steps_.write(epoch_, samples[i], scratch, image + i * dataset_->shape().bytes());
    }
  }

  /// Partners are neighbours; of an odd number the last image has none.
  void fill_mixed(FilledBuffer& filled, std::int64_t batch,
                  const std::atomic<bool>& abandoned) const {
    const auto& shape = dataset_->shape();
    const auto draw = draw_mix(options_.mix, options_.seed, static_cast<std::uint32_t>(epoch_),
                               static_cast<std::uint32_t>(batch), shape.height, shape.width);
    filled.own_share = draw.own_share;
    const auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    const auto* labels = filled.buffer.labels.data_ptr<std::int64_t>();
    auto* partner_labels = filled.buffer.partner_labels.data_ptr<std::int64_t>();
    auto* image = filled.buffer.images.data_ptr<float>();
    ImageSteps::Scratch scratch;
    std::vector<std::uint8_t> pair(static_cast<std::size_t>(2 * shape.bytes()));
    for (std::int64_t i = 0; i < filled.size && !abandoned; i += 2) {
      const auto count = std::min<std::int64_t>(2, filled.size - i);
      for (std::int64_t j = 0; j < count; ++j) {
        steps_.make_bytes(epoch_, samples[i + j], scratch, pair.data() + j * shape.bytes());
        partner_labels[i + j] = labels[i + count - 1 - j];
      }
      if (count == 2) mix_pair(draw, shape, pair.data(), pair.data() + shape.bytes());
      for (std::int64_t j = 0; j < count; ++j) {
        steps_.finish(epoch_, samples[i + j], pair.data() + j * shape.bytes(),
                      image + (i + j) * shape.bytes());
      }
    }
  }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const ImageSteps steps_;
  BatchBuffers buffers_;
  std::vector<std::int64_t> order_;
  std::int64_t epoch_ = 0;
  std::int64_t next_batch_ = 0;
  bool started_ = false;
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
