#pragma once

#include <cstdint>
#include <memory>

#include <adaact/data/augment.h>
#include <adaact/data/dataset.h>
#include <adaact/data/loader.h>
#include <torch/types.h>

namespace adaact {

/// The batches of a Loader, bit for bit, from a data set in the memory of a GPU. A batch costs one
/// small kernel and, in a CUDA graph, nothing on the host: order, epoch and position are in device
/// memory, so a replay writes the next batch. A build without CUDA throws an error that says so.
///
///   batches.start(epoch);
///   for (std::int64_t i = 0; i < batches.batches_per_epoch(); ++i) {
///     batches.enqueue_next(images, labels);  // or replay a graph that has captured it
///     train(images, labels);
///   }
///
/// The batches of an epoch are enqueued, or replayed, on the stream that start() was called on, or
/// are ordered after it by the user. Graphs that have captured enqueue_next() must not outlive the
/// object. For use by one thread; objects do not disturb each other.
class DeviceBatches {
 public:
  struct Options {
    std::int64_t batch_size = 128;
    bool shuffle = true;
    bool drop_last = false;  // the last batch of an epoch if it is smaller than the others
    std::uint64_t seed = 0;  // of the order and of the augmentation
    // Of every batch only one of so many parts is written, as a Loader's.
    std::int64_t part = 0;
    std::int64_t parts = 1;
    AugmentOptions augment;
    MixOptions mix;
    torch::ScalarType dtype = torch::kFloat;  // or kBFloat16 or kHalf: kFloat rounded
    bool channels_last = false;

    static Options training() {
      Options options;
      options.augment = AugmentOptions::training();
      return options;
    }
    static Options evaluation() {
      Options options;
      options.shuffle = false;
      return options;
    }
    /// The same options as a loader's, whose images are float32.
    static Options of(const LoaderOptions& loader, bool channels_last) {
      Options options;
      options.batch_size = loader.batch_size;
      options.shuffle = loader.shuffle;
      options.drop_last = loader.drop_last;
      options.seed = loader.seed;
      options.part = loader.part;
      options.parts = loader.parts;
      options.augment = loader.augment;
      options.mix = loader.mix;
      options.channels_last = channels_last;
      return options;
    }
  };

  /// Reads the whole data set, in several threads, and keeps nothing of it on the host.
  DeviceBatches(const Dataset& dataset, const Options& options, torch::Device device);
  ~DeviceBatches();
  DeviceBatches(const DeviceBatches&) = delete;
  DeviceBatches& operator=(const DeviceBatches&) = delete;

  /// Whether such batches can be made on a GPU: those that are only cropped to their old size and flipped. Others
  /// are refused.
  static bool knows(const AugmentOptions& augment, const MixOptions& mix) {
    return !augment.resized_crop && !augment.rand_augment && augment.erase_probability == 0.0 &&
           !mix.any();
  }
  static bool knows(const LoaderOptions& loader) { return knows(loader.augment, loader.mix); }

  /// Whether the images are of a kind it knows and, a byte a value, take at most half of the memory that
  /// is free on the GPU.
  static bool fits(const Dataset& dataset, torch::Device device);

  std::int64_t batches_per_epoch() const;

  /// How many images a batch of an epoch has; the last one may be smaller than the others.
  std::int64_t whole_batch_size(std::int64_t batch) const;
  /// How many of them are this part's. Where a batch has fewer images than there are parts, some have none.
  std::int64_t batch_size(std::int64_t batch) const;
  /// How many of them are in the parts before this one.
  std::int64_t images_before(std::int64_t batch) const;

  /// Begins an epoch, or enters it at a later batch. Enqueues what it does on the current stream and
  /// waits for nothing; the order is sorted on the GPU. Not to be captured.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  /// Enqueues, on the current stream, the kernel that writes the next batch and moves on. `images`
  /// and `labels` have the size and format of empty_images() and empty_labels() for a whole batch or
  /// for the last one. After the last batch of the epoch labels are -1, which no loss takes, and
  /// images are black.
  void enqueue_next(const torch::Tensor& images, const torch::Tensor& labels);

  torch::Tensor empty_images(std::int64_t size) const;
  torch::Tensor empty_labels(std::int64_t size) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
