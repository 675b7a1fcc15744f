// Images per second that a core prepares for training: crop, flip and normalise CIFAR-shaped images; and what the
// options for photographs cost at 224×224, without decoding. With 0 workers everything happens in next(), so that is
// one core's rate.

#include <adaact/data/loader.h>
#include <adaact/data/synthetic.h>
#include <benchmark/benchmark.h>

namespace {

/// One after the other, each with another order and augmentation.
void take_epochs(benchmark::State& state, adaact::Loader& loader) {
  std::int64_t epoch = 0;
  std::int64_t images = 0;
  for (auto _ : state) {
    loader.start(epoch++);
    while (const auto batch = loader.next()) images += batch->size();
  }
  state.SetItemsProcessed(images);
}

void prepare_batches(benchmark::State& state) {
  adaact::SyntheticOptions synthetic;
  synthetic.size = 50000;
  static const auto data = adaact::make_synthetic(synthetic);
  auto options = adaact::LoaderOptions::training();
  options.workers = state.range(0);
  adaact::Loader loader(data, options);
  take_epochs(state, loader);
}
BENCHMARK(prepare_batches)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseRealTime();

enum class Photographs : std::uint8_t { Flipped, RandAugmented, Mixed, Erased };

void prepare_photographs(benchmark::State& state, Photographs kind) {
  adaact::SyntheticOptions synthetic;
  synthetic.size = 256;
  synthetic.shape = {3, 224, 224};
  static const auto data = adaact::make_synthetic(synthetic);
  adaact::LoaderOptions options;
  options.workers = 0;
  options.augment.flip_probability = 0.5;
  if (kind == Photographs::RandAugmented) options.augment.rand_augment.emplace();
  if (kind == Photographs::Mixed) options.mix = {0.8, 1.0};
  if (kind == Photographs::Erased) options.augment.erase_probability = 0.25;
  adaact::Loader loader(data, options);
  take_epochs(state, loader);
}
BENCHMARK_CAPTURE(prepare_photographs, flipped, Photographs::Flipped)->UseRealTime();
BENCHMARK_CAPTURE(prepare_photographs, rand_augment, Photographs::RandAugmented)->UseRealTime();
BENCHMARK_CAPTURE(prepare_photographs, mixed, Photographs::Mixed)->UseRealTime();
BENCHMARK_CAPTURE(prepare_photographs, erased, Photographs::Erased)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
