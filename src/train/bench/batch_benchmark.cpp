#include "train/bench/batch_benchmark.h"

#include <algorithm>
#include <vector>

#include <adaact/data/device_batches.h>
#include <adaact/data/synthetic.h>

#include "train/bench/timed_work.h"
#include "train/graph/replayed_step.h"

namespace adaact {
namespace {

constexpr std::int64_t kImageBytes = std::int64_t{1} << 27;  // more than a GPU's cache holds
constexpr std::int64_t kFewestBatches = 4;                   // of an epoch
constexpr std::int64_t kMostBatches = 512;
constexpr int kEpochs = 5;

}  // namespace

double milliseconds_per_device_batch(const ImageShape& shape, std::int64_t batch_size,
                                     bool channels_last, torch::Device device) {
  const auto count =
      std::clamp(kImageBytes / (shape.bytes() * batch_size), kFewestBatches, kMostBatches);
  SyntheticOptions synthetic;
  synthetic.size = count * batch_size;
  synthetic.shape = shape;
  auto options = DeviceBatches::Options::training();
  options.batch_size = batch_size;
  options.channels_last = channels_last;
  DeviceBatches batches(*make_synthetic(synthetic), options, device);
  const auto images = batches.empty_images(batch_size);
  const auto labels = batches.empty_labels(batch_size);

  // One launch for all batches: launched one by one they would take the host's time, of which they
  // take none in a captured step.
  batches.start(/*epoch=*/0);
  batches.enqueue_next(images, labels);
  const auto replay_all = cuda_graph_recorder()([&] {
    for (std::int64_t i = 0; i < count; ++i) batches.enqueue_next(images, labels);
  });
  std::vector<double> epochs;
  for (int epoch = 0; epoch <= kEpochs; ++epoch) {
    const auto taken = milliseconds_of(device, [&] {
      batches.start(epoch);
      replay_all();
    });
    if (epoch > 0) epochs.push_back(taken / static_cast<double>(count));  // the first warms up
  }
  return median(epochs);
}

}  // namespace adaact
