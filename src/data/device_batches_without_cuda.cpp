#include <adaact/data/device_batches.h>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

[[noreturn]] void refuse_batches() {
  TORCH_CHECK(false, "DeviceBatches: this is a build without CUDA, expected one with it");
}

}  // namespace

class DeviceBatches::Impl {};

DeviceBatches::DeviceBatches(const Dataset& /*dataset*/, const Options& /*options*/,
                             torch::Device /*device*/) {
  refuse_batches();
}
DeviceBatches::~DeviceBatches() = default;
bool DeviceBatches::fits(const Dataset& /*dataset*/, torch::Device /*device*/) { refuse_batches(); }
std::int64_t DeviceBatches::batches_per_epoch() const { refuse_batches(); }
std::int64_t DeviceBatches::whole_batch_size(std::int64_t /*batch*/) const { refuse_batches(); }
std::int64_t DeviceBatches::batch_size(std::int64_t /*batch*/) const { refuse_batches(); }
std::int64_t DeviceBatches::images_before(std::int64_t /*batch*/) const { refuse_batches(); }
void DeviceBatches::start(std::int64_t /*epoch*/, std::int64_t /*first_batch*/) {
  refuse_batches();
}
void DeviceBatches::enqueue_next(const torch::Tensor& /*images*/, const torch::Tensor& /*labels*/) {
  refuse_batches();
}
torch::Tensor DeviceBatches::empty_images(std::int64_t /*size*/) const { refuse_batches(); }
torch::Tensor DeviceBatches::empty_labels(std::int64_t /*size*/) const { refuse_batches(); }

}  // namespace adaact
