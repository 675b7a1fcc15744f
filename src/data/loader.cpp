#include <adaact/data/loader.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <adaact/data/shuffle.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include "data/batch_buffers.h"
#include "data/ordered_prefetch.h"

namespace adaact {
namespace {

using Clock = std::chrono::steady_clock;

/// A buffer of which the first `size` samples are filled.
struct FilledBuffer {
  BatchBuffer buffer;
  std::int64_t size = 0;
  std::int64_t whole = 0;  // samples of all parts of the batch
};

/// Samples of a batch that come before a part of it.
std::int64_t part_begin(std::int64_t batch, std::int64_t part, std::int64_t parts) {
  return batch * part / parts;
}

}  // namespace

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        options_(options),
        augmenter_(dataset_->shape(), dataset_->normalization(), options.augment, options.layout),
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
                filled.whole};
    buffers_.lend(filled.buffer);
    return batch;
  }

  double seconds_waited() const { return std::chrono::duration<double>(waited_).count(); }

 private:
  std::int64_t largest_part() const {
    const auto whole = std::min(options_.batch_size, dataset_->size());
    return (whole + options_.parts - 1) / options_.parts;
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
    const auto before = part_begin(whole, options_.part, options_.parts);
    const auto size = part_begin(whole, options_.part + 1, options_.parts) - before;
    const auto begin = batch_begin + before;
    FilledBuffer filled{buffers_.take(), size, whole};
    auto* image = filled.buffer.images.data_ptr<float>();
    auto* labels = filled.buffer.labels.data_ptr<std::int64_t>();
    auto* samples = filled.buffer.samples.data_ptr<std::int64_t>();
    const auto image_size = dataset_->shape().bytes();
    std::vector<std::uint8_t> decoded;
    for (std::int64_t i = 0; i < size && !abandoned; ++i, image += image_size) {
      const auto sample = order_[static_cast<std::size_t>(begin + i)];
      const auto* pixels = dataset_->pixels(sample);
      if (pixels == nullptr) {
        decoded.resize(static_cast<std::size_t>(image_size));
        dataset_->read(sample, decoded.data());
        pixels = decoded.data();
      }
      const auto draw =
          draw_augment(options_.augment, options_.seed, static_cast<std::uint32_t>(epoch_),
                       static_cast<std::uint32_t>(sample));
      augmenter_.apply(pixels, draw, image);
      labels[i] = dataset_->label(sample);
      samples[i] = sample;
    }
    return filled;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  const Augmenter augmenter_;
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
