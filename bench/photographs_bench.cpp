// How fast a model trains on JPEG files, beside the same steps on a batch that is there already and beside the loader
// by itself:
//
//   build/release/bench/photographs_bench IMAGES [MODEL [SIDE [BATCHES [ROUNDS]]]]
//
// IMAGES has a train/ folder. Each photograph is decoded anew, a random part of it scaled to SIDE × SIDE, mirrored,
// changed by RandAugment, mixed with another and normalised, by two workers. In a round each way takes BATCHES batches
// of 32; the first round, which brings the files into the page cache, is not counted. A share of 1 means that steps
// never wait for photographs, and that preparing them takes no core away from them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <torch/torch.h>

#include "train/step/classification_pass.h"

namespace {

constexpr std::int64_t kBatch = 32;

struct Sizes {
  std::string model = "resnet50";
  std::int64_t side = 128;
  std::int64_t batches = 8;
  std::int64_t rounds = 3;
};

adaact::LoaderOptions recipe() {
  auto options = adaact::LoaderOptions::training();
  options.batch_size = kBatch;
  options.workers = 2;
  options.augment.resized_crop.emplace();
  options.augment.rand_augment.emplace();
  options.mix = {0.8, 1.0};
  return options;
}

std::shared_ptr<adaact::ImageFolder> open_folder(const char* root, std::int64_t side) {
  adaact::ImageFolderOptions options;
  options.root = root;
  options.image_size = side;
  options.memory_for_decoded = 0;
  return std::make_shared<adaact::ImageFolder>(options);
}

class Training {
 public:
  Training(const std::shared_ptr<adaact::ImageFolder>& folder, const Sizes& sizes)
      : loader_(folder, recipe()), sizes_(sizes), model_(model_for(*folder, sizes)) {
    optimizer_ = adaact::make_optimizer("sgd", *model_, "{}");
    loader_.start(/*epoch=*/0);
    resident_ = *loader_.next();
  }

  void load() {
    take_batches([](const adaact::Batch& /*batch*/) {});
  }
  void step() {
    for (std::int64_t i = 0; i < sizes_.batches; ++i) step_with(resident_);
  }
  void load_and_step() {
    take_batches([this](const adaact::Batch& batch) { step_with(batch); });
  }

 private:
  static std::shared_ptr<adaact::Model> model_for(const adaact::Dataset& data, const Sizes& sizes) {
    auto options = adaact::default_model_options(sizes.model);
    options.classes = data.classes();
    options.image_size = sizes.side;
    return adaact::make_model(sizes.model, options);
  }

  void take_batches(const std::function<void(const adaact::Batch&)>& use) {
    loader_.start(++epoch_);
    for (std::int64_t i = 0; i < sizes_.batches; ++i) use(*loader_.next());
  }

  void step_with(const adaact::Batch& batch) {
    const adaact::PassSettings settings;
    optimizer_->step([&] {
      optimizer_->zero_grad();
      return training_pass(*model_, batch.images, adaact::Targets::of(batch, settings.device),
                           batch.size(), settings)
          .loss;
    });
  }

  adaact::Loader loader_;
  const Sizes sizes_;
  std::shared_ptr<adaact::Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  adaact::Batch resident_;
  std::int64_t epoch_ = 0;
};

/// Images per second of so many rounds, from the slowest to the fastest.
class Speeds {
 public:
  explicit Speeds(const Sizes& sizes) : images_(static_cast<double>(kBatch * sizes.batches)) {}

  void measure(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    of_rounds_.push_back(images_ / taken.count());
    std::sort(of_rounds_.begin(), of_rounds_.end());
  }
  double median() const { return of_rounds_[of_rounds_.size() / 2]; }
  void print(const char* name) const {
    std::printf("%-30s %9.1f [%.1f, %.1f]\n", name, median(), of_rounds_.front(),
                of_rounds_.back());
  }

 private:
  const double images_;
  std::vector<double> of_rounds_;
};

void compare(Training& training, const Sizes& sizes) {
  Speeds loading(sizes);
  Speeds stepping(sizes);
  Speeds both(sizes);
  training.load();
  training.step();
  for (std::int64_t round = 0; round < sizes.rounds; ++round) {
    loading.measure([&] { training.load(); });
    stepping.measure([&] { training.step(); });
    both.measure([&] { training.load_and_step(); });
  }
  loading.print("loader by itself");
  stepping.print("steps on one batch");
  both.print("steps on photographs");
  std::printf("%-30s %9.3f\n", "share of the step's speed", both.median() / stepping.median());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "photographs_bench IMAGES [MODEL [SIDE [BATCHES [ROUNDS]]]]\n");
    return 2;
  }
  Sizes sizes;
  if (argc > 2) sizes.model = argv[2];
  if (argc > 3) sizes.side = std::max(std::atoll(argv[3]), 1LL);
  if (argc > 4) sizes.batches = std::max(std::atoll(argv[4]), 1LL);
  if (argc > 5) sizes.rounds = std::max(std::atoll(argv[5]), 1LL);
  const auto folder = open_folder(argv[1], sizes.side);
  TORCH_CHECK(folder->size() >= kBatch * sizes.batches, "adaact: ", argv[1], " has ",
              folder->size(), " images, expected at least ", kBatch * sizes.batches);
  torch::manual_seed(0);
  Training training(folder, sizes);
  std::printf("%s at %ld x %ld, %ld rounds of %ld batches of %ld; images/s: median [range]\n",
              sizes.model.c_str(), sizes.side, sizes.side, sizes.rounds, sizes.batches, kBatch);
  compare(training, sizes);
  return 0;
}
