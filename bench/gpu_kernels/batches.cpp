// Making a batch.

#include <adaact/data/device_batches.h>
#include <adaact/data/synthetic.h>

#include "gpu_kernels/work.h"

namespace adaact::bench {
namespace {

Work batches_work(torch::ScalarType dtype, bool channels_last) {
  auto options = DeviceBatches::Options::training();
  options.dtype = dtype;
  options.channels_last = channels_last;
  SyntheticOptions synthetic;
  // After the last batch of an epoch the kernel would have nothing to read.
  synthetic.size = options.batch_size * static_cast<std::int64_t>(kMostCalls);
  static const auto data = make_synthetic(synthetic);
  const auto batches = std::make_shared<DeviceBatches>(*data, options, torch::kCUDA);

  struct Batch {
    torch::Tensor images;
    torch::Tensor labels;
  };
  const auto make = [&] {
    return Batch{batches->empty_images(options.batch_size),
                 batches->empty_labels(options.batch_size)};
  };
  const auto sets = rotating_sets(
      make, [](const Batch& batch) { return static_cast<double>(batch.images.nbytes()); });
  Work work;
  work.call = [sets, batches](std::size_t set) {
    const auto& batch = (*sets)[set];
    batches->enqueue_next(batch.images, batch.labels);
  };
  work.prepare = [batches] { batches->start(/*epoch=*/0); };
  work.sets = sets->size();
  work.images = options.batch_size;
  const auto& written = sets->front();
  work.traffic.add(written.images, 1);
  work.traffic.add(written.labels, 3);  // order and labels of the samples are read
  const auto pixels = static_cast<double>(options.batch_size * data->shape().bytes());
  work.traffic.moved += pixels;
  work.traffic.held += pixels;
  return work;
}

}  // namespace

void add_batch_benchmarks() {
  add_benchmark("device_batches/128x3x32x32/fp32/nchw",
                [] { return batches_work(torch::kFloat32, /*channels_last=*/false); });
  add_benchmark("device_batches/128x3x32x32/fp32/nhwc",
                [] { return batches_work(torch::kFloat32, /*channels_last=*/true); });
  add_benchmark("device_batches/128x3x32x32/bf16/nhwc",
                [] { return batches_work(torch::kBFloat16, /*channels_last=*/true); });
}

}  // namespace adaact::bench
