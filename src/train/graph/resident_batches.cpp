#include <adaact/data/device_batches.h>

#include "train/graph/batch_source.h"
#include "train/step/rank_totals.h"

namespace adaact {
namespace {

DeviceBatches::Options options_of(const Loader& data, const PassSettings& passes) {
  auto options = DeviceBatches::Options::of(data.options(), passes.channels_last);
  options.dtype = passes.image_dtype();
  return options;
}

class ResidentBatches : public BatchSource {
 public:
  ResidentBatches(const Loader& data, const PassSettings& passes)
      : batches_(data.dataset(), options_of(data, passes), passes.device) {}

  std::int64_t batches_per_epoch() const override { return batches_.batches_per_epoch(); }

  void start(std::int64_t epoch, std::int64_t first_batch) override {
    batches_.start(epoch, first_batch);
  }

  void prepare(StaticBatch& batch, std::int64_t number) override {
    if (batch.has_memory()) return;
    const auto size = batches_.batch_size(number);
    batch = {batches_.empty_images(size),
             {batches_.empty_labels(size)},
             batches_.images_before(number),
             batches_.whole_batch_size(number)};
  }

  void enqueue_next(const StaticBatch& batch) override {
    batches_.enqueue_next(batch.images, batch.targets.labels);
  }

  std::int64_t most_unread() const override { return 64; }
  double seconds_waited() const override { return 0.0; }

 private:
  DeviceBatches batches_;
};

}  // namespace

std::unique_ptr<BatchSource> resident_batches(const Loader& data, const PassSettings& passes) {
  return std::make_unique<ResidentBatches>(data, passes);
}

bool can_be_resident(const Loader& data, torch::Device device, Communicator& ranks) {
  if (!DeviceBatches::knows(data.options())) return false;
  // Ranks that differ would not read their steps together.
  return !any_rank(!DeviceBatches::fits(data.dataset(), device), ranks);
}

}  // namespace adaact
