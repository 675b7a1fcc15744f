// Trains LeNet-5 on made-up images with the laboratory's loader, model and trainer.
#include <adaact/adaact.h>
#include <adaact/data/datasets.h>
#include <adaact/models/registry.h>
#include <adaact/train/trainer.h>

#include <cstdio>

namespace {

std::shared_ptr<adaact::Dataset> made_up_images(adaact::Split split, std::int64_t size) {
  adaact::DatasetOptions options;
  options.split = split;
  options.limit = size;
  return adaact::open_dataset("synthetic", options);
}

class PrintEpochs : public adaact::TrainingCallback {
  void on_epoch(const adaact::Trainer&, const adaact::EpochMetrics& metrics) override {
    std::printf("epoch %d: test accuracy %.1f %%\n", static_cast<int>(metrics.epoch) + 1,
                100.0 * metrics.test.top1);
  }
};

}  // namespace

int main() {
  torch::manual_seed(0);
  adaact::Loader train(made_up_images(adaact::Split::Train, 1024),
                       adaact::LoaderOptions::training());
  adaact::Loader test(made_up_images(adaact::Split::Test, 256),
                      adaact::LoaderOptions::evaluation());
  const auto model = adaact::make_model("lenet5");
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1));

  adaact::TrainerOptions options;
  options.epochs = 2;
  adaact::Trainer trainer(*model, optimizer, train, test, options);
  PrintEpochs print;
  trainer.add_callback(print);
  return trainer.run() ? 0 : 1;
}
