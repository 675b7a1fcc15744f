#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <adaact/data/augment.h>
#include <adaact/data/dataset.h>
#include <torch/types.h>

namespace adaact {

/// Batches in which each image is mixed with its partner, which is the one at the same distance from the other
/// end of the batch. Where both are on, a batch gets one of the two at random. Partners then stand side by side in the
/// batch, and a part of it has both.
struct MixOptions {
  double mixup_alpha =
      0.0;  // of the Beta distribution of an image's share, 0.001 or more; 0: no mixup
  double cutmix_alpha = 0.0;  // likewise, of a rectangle from the partner

  bool any() const { return mixup_alpha > 0.0 || cutmix_alpha > 0.0; }
};

struct LoaderOptions {
  std::int64_t batch_size = 128;
  bool shuffle = true;
  bool drop_last = false;     // the last batch of an epoch if it is smaller than the others
  std::int64_t workers = 1;   // threads; 0 prepares each batch in next()
  std::int64_t prefetch = 4;  // batches at most that are ready or in preparation
  std::uint64_t seed = 0;     // of the order and of the augmentation
  // Of every batch only one of so many parts is prepared: the batch itself does not depend on it.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  bool pin_memory = false;  // for copies to a GPU that do not wait
  ImageLayout layout = ImageLayout::Planes;
  AugmentOptions augment;
  MixOptions mix;
  // Where images are finished. For a GPU threads read, crop and scale them; the rest next() enqueues there, for all of a
  // batch at once, on a stream that the current one waits for. Pixels are the same; the noise of what is erased may
  // differ by a rounding.
  torch::Device device = torch::kCPU;
  bool at_once = false;  // on the CPU too, where that is slower and gives the same bits
  torch::ScalarType dtype =
      torch::kFloat;  // of images finished at once: or kBFloat16 or kHalf, kFloat rounded

  // Where resized crops are taken of photographs, their parts are decoded and scaled at once, too: on a GPU by nvJPEG,
  // where colours differ from those of the CPU by a few units. What only the CPU decodes is left to the threads.
  bool decode_at_once = false;

  bool finishes_at_once() const { return at_once || device.is_cuda(); }

  static LoaderOptions training() {
    LoaderOptions options;
    options.augment = AugmentOptions::training();
    return options;
  }
  static LoaderOptions evaluation() {
    LoaderOptions options;
    options.shuffle = false;
    return options;
  }
};

struct Batch {
  torch::Tensor images;   // (B, C, H, W) of LoaderOptions' type
  torch::Tensor labels;   // (B) kLong
  torch::Tensor samples;  // (B) kLong, their indices in the data set
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // in the epoch
  std::int64_t whole = 0;  // images of all its parts
  std::int64_t begin = 0;  // how many of them are in the parts before this one
  // (B) kLong, of what was mixed in; undefined without MixOptions
  torch::Tensor partner_labels = {};
  double own_share = 1.0;  // of an image's own label in its target; the rest is its partner's

  /// Images of this part. Where a batch has fewer than parts, some have none.
  std::int64_t size() const { return labels.size(0); }
};

/// Batches of an epoch, in an order and with an augmentation that depend on the seed and the epoch
/// alone: not on the number of workers, not on where the epoch was entered.
///
///   for (loader.start(epoch, first_batch); auto batch = loader.next();) train(*batch);
///
/// A batch is its receiver's to keep or change: its memory is used again only when nothing refers
/// to it any more. For use by one thread.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins an epoch, or enters it at a later batch. What was being prepared is dropped.
  void start(std::int64_t epoch, std::int64_t first_batch = 0);

  /// The next batch; nothing at the end of the epoch. An error in preparing a batch is thrown when
  /// its turn comes, and again at every further call until start().
  std::optional<Batch> next();

  std::int64_t batches_per_epoch() const;
  const Dataset& dataset() const;
  const LoaderOptions& options() const;

  /// How long all calls of next() together have waited for a batch.
  double seconds_waited() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaact
