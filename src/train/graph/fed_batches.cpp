#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "kernels/ceil_div.h"
#include "train/graph/batch_source.h"
#include "train/graph/step_batches.h"
#include "train/step/batch_on_device.h"

namespace adaact {
namespace {

/// The same for all ranks, whose parts of a batch may differ by an image or two.
std::int64_t bytes_of_batch(const Loader& data) {
  const auto images = ceil_div(data.options().batch_size, data.options().parts);
  const auto& of = data.options();
  const auto of_value = of.finishes_at_once() ? 1 + torch::elementSize(of.dtype) : sizeof(float);
  return images * data.dataset().shape().bytes() * static_cast<std::int64_t>(of_value);
}

/// Converts on the device: from one to the other copy_() would convert on the CPU, and wait.
void place(const torch::Tensor& memory, const torch::Tensor& of_batch) {
  memory.copy_(on_device(of_batch, memory.device()));
}

class FedBatches : public BatchSource {
 public:
  FedBatches(Loader& data, const PassSettings& passes, std::shared_ptr<Communicator> ranks)
      : data_(data),
        passes_(passes),
        ranks_(std::move(ranks)),
        most_under_way_(most_batches_under_way(bytes_of_batch(data))) {}

  std::int64_t batches_per_epoch() const override { return data_.batches_per_epoch(); }

  void start(std::int64_t epoch, std::int64_t first_batch) override {
    data_.start(epoch, first_batch);
  }

  void prepare(StaticBatch& batch, std::int64_t number) override {
    const auto next = data_.next();
    TORCH_CHECK(next && next->index == number, "FedBatches: batch ", number,
                " was asked for out of turn");
    if (!batch.has_memory()) batch = memory_for(*next);
    TORCH_CHECK(next->size() == batch.size() && next->whole == batch.whole, "FedBatches: batch ",
                number, " has ", next->size(), " of ", next->whole, " images, expected ",
                batch.size(), " of ", batch.whole);
    place(batch.images, next->images);
    place(batch.targets.labels, next->labels);
    if (batch.targets.are_mixed()) {
      place(batch.targets.partner_labels, next->partner_labels);
      batch.targets.own_share.fill_(next->own_share);
    }
    limit_batches_under_way();
  }

  void enqueue_next(const StaticBatch& /*batch*/) override {}  // prepare() has written it

  /// They may be long in coming. A rank that is steps behind would be taken for lost by those that wait for it.
  std::int64_t most_unread() const override { return ranks_->size() > 1 ? 1 : 16; }
  double seconds_waited() const override { return data_.seconds_waited(); }

 private:
  /// Of the shapes, the dtypes and the layout that a step without a graph would give the model.
  StaticBatch memory_for(const Batch& batch) const {
    auto targets = Targets::of(batch, passes_.device);
    for (auto* tensor : {&targets.labels, &targets.partner_labels, &targets.own_share}) {
      if (tensor->defined()) *tensor = torch::empty_like(*tensor);
    }
    return {torch::empty_like(prepared_images(batch, passes_)), targets, batch.begin, batch.whole};
  }

  void limit_batches_under_way() {
    if (!passes_.device.is_cuda() || ++under_way_ < most_under_way_) return;
    under_way_ = 0;
    ranks_->wait_for_stream();
    const c10::impl::VirtualGuardImpl streams(passes_.device.type());
    streams.getStream(passes_.device).synchronize();
  }

  Loader& data_;
  const PassSettings passes_;
  const std::shared_ptr<Communicator> ranks_;
  const std::int64_t most_under_way_;
  std::int64_t under_way_ = 0;  // at most: those since the host has waited
};

}  // namespace

std::unique_ptr<BatchSource> fed_batches(Loader& data, const PassSettings& passes,
                                         std::shared_ptr<Communicator> ranks) {
  return std::make_unique<FedBatches>(data, passes, std::move(ranks));
}

}  // namespace adaact
