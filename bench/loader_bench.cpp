// Images per second that a core prepares for training: crop, flip and normalise CIFAR-shaped images.
// With 0 workers everything happens in next(), so that is one core's rate.

#include <adaact/data/loader.h>
#include <adaact/data/synthetic.h>
#include <benchmark/benchmark.h>

namespace {

void prepare_batches(benchmark::State& state) {
  adaact::SyntheticOptions synthetic;
  synthetic.size = 50000;
  static const auto data = adaact::make_synthetic(synthetic);
  auto options = adaact::LoaderOptions::training();
  options.workers = state.range(0);
  adaact::Loader loader(data, options);
  std::int64_t epoch = 0;
  std::int64_t images = 0;
  for (auto _ : state) {
    loader.start(epoch++);
    while (const auto batch = loader.next()) images += batch->size();
  }
  state.SetItemsProcessed(images);
}
BENCHMARK(prepare_batches)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
