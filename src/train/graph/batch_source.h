#pragma once

#include <cstdint>
#include <memory>

#include <adaact/data/loader.h>
#include <adaact/ranks/communicator.h>
#include <torch/types.h>

#include "train/step/classification_pass.h"
#include "train/step/targets.h"

namespace adaact {

/// A batch in memory that stays where it is, because what was captured reads it there.
struct StaticBatch {
  torch::Tensor images;
  Targets targets;
  std::int64_t begin = 0;  // how many images are in the parts of the ranks before
  std::int64_t whole = 0;  // images of all ranks

  bool has_memory() const { return images.defined(); }
  std::int64_t size() const { return targets.labels.size(0); }
};

/// Where the batches of captured passes come from:
///
///   source.start(epoch, first_batch);
///   source.prepare(batch, first_batch);  // and for each further batch of the step
///   replay what has captured source.enqueue_next(batch) and a pass over the batch;
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::int64_t batches_per_epoch() const = 0;
  /// Begins an epoch, or enters it at a later batch.
  virtual void start(std::int64_t epoch, std::int64_t first_batch) = 0;
  /// Not to be captured: gives the batch memory, where it has none, for batches as large as the one of this number, and
  /// does what enqueue_next() cannot. To be called for the batches of an epoch in their order.
  virtual void prepare(StaticBatch& batch, std::int64_t number) = 0;
  /// What can be captured of the next batch: once done, and prepare() before it, the memory has it.
  virtual void enqueue_next(const StaticBatch& batch) = 0;
  /// So many batches may go by before somebody reads what came of them, for progress to be seen and a wish to stop to be
  /// heard in time. The same for all ranks.
  virtual std::int64_t most_unread() const = 0;
  /// How long all calls of prepare() together have waited for a batch.
  virtual double seconds_waited() const = 0;
};

/// The loader's batches made on the GPU, from data that stay there: a kernel in the graph writes them.
std::unique_ptr<BatchSource> resident_batches(const Loader& data, const PassSettings& passes);
/// Whether there can be such on the GPUs of all ranks.
bool can_be_resident(const Loader& data, torch::Device device, Communicator& ranks);

/// The batches that the loader makes, copied into their memory before each replay. Where many are under way the host
/// waits for the device, on all ranks before the same batch.
std::unique_ptr<BatchSource> fed_batches(Loader& data, const PassSettings& passes,
                                         std::shared_ptr<Communicator> ranks);

}  // namespace adaact
