// How fast a GPU makes batches of photographs:
//
//   build/release/bench/gpu_images PHOTOGRAPHS [BATCH [SIDE [WORKERS [ROUNDS]]]]
//
// PHOTOGRAPHS has a train/ folder of JPEG files. First what each step takes of the GPU's time for one batch, parts of the
// size of the photographs' own to SIDE × SIDE; then images per second of a loader by itself, with the recipe of ImageNet,
// where the CPU does all of the work, where the GPU does what comes after decoding and scaling, and where it does all.
// Medians and ranges of the rounds.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAEvent.h>
#include <adaact/data/image_folder.h>
#include <adaact/data/loader.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include "data/image_batch_maker.h"
#include "data/jpeg_batch_decoder.h"

namespace {

struct Sizes {
  std::int64_t batch = 256;
  std::int64_t side = 224;
  std::int64_t workers = 16;
  std::int64_t rounds = 5;
};

class Rounds {
 public:
  void add(double value) {
    values_.push_back(value);
    std::sort(values_.begin(), values_.end());
  }
  void print(const char* name, const char* unit) const {
    std::printf("%-34s %10.3f [%.3f, %.3f] %s\n", name, values_[values_.size() / 2],
                values_.front(), values_.back(), unit);
  }

 private:
  std::vector<double> values_;
};

/// Milliseconds of the GPU, where the host keeps ahead of it.
void time_on_gpu(const char* name, const Sizes& sizes, const std::function<void()>& work) {
  constexpr int kCalls = 20;
  Rounds milliseconds;
  work();
  for (std::int64_t round = 0; round < sizes.rounds; ++round) {
    at::cuda::CUDAEvent begin(cudaEventDefault);
    at::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    for (int call = 0; call < kCalls; ++call) work();
    end.record();
    end.synchronize();
    milliseconds.add(begin.elapsed_time(end) / kCalls);
  }
  milliseconds.print(name, "ms a batch");
}

void time_steps(const Sizes& sizes) {
  constexpr std::int64_t kHeight = 375;
  constexpr std::int64_t kWidth = 500;
  const adaact::ImageShape shape{3, sizes.side, sizes.side};
  const auto maker = adaact::image_batch_maker_cuda(
      {shape, torch::zeros({3, 256}, torch::kBFloat16), adaact::ImageLayout::ChannelsLast, 1},
      torch::kCUDA);
  const auto on_gpu = torch::dtype(torch::kByte).device(torch::kCUDA);
  const auto images = torch::randint(0, 256, {sizes.batch, 3, sizes.side, sizes.side}, on_gpu);
  const auto sources = torch::randint(0, 256, {sizes.batch * kHeight * kWidth * 3}, on_gpu);
  std::vector<adaact::ScalePlan> scaled;
  std::vector<std::uint32_t> samples;
  for (std::int64_t i = 0; i < sizes.batch; ++i) {
    scaled.push_back(
        {i, i * kHeight * kWidth * 3, kHeight, kWidth, 0,
         i % 2 == 0 ? adaact::ResampleFilter::Bilinear : adaact::ResampleFilter::Bicubic, false});
    samples.push_back(static_cast<std::uint32_t>(i));
  }
  adaact::AugmentOptions options;
  const auto plain = plan_images(options, shape, 1, 0, samples);
  auto mixed = plain;
  mixed.mixed = true;
  mixed.mix = adaact::draw_mix({0.8, 0.0}, 1, 0, 0, sizes.side, sizes.side);
  options.rand_augment.emplace();
  const auto augmented = plan_images(options, shape, 1, 0, samples);
  time_on_gpu("scaling whole photographs", sizes, [&] { maker->scale(sources, scaled, images); });
  time_on_gpu("normalising", sizes, [&] { maker->finish(images, plain); });
  time_on_gpu("mixing and normalising", sizes, [&] { maker->finish(images, mixed); });
  time_on_gpu("RandAugment and normalising", sizes, [&] { maker->finish(images, augmented); });
}

adaact::LoaderOptions recipe(const Sizes& sizes) {
  auto options = adaact::LoaderOptions::training();
  options.batch_size = sizes.batch;
  options.workers = sizes.workers;
  options.prefetch = 2 * sizes.workers;
  options.drop_last = true;
  options.pin_memory = true;
  options.augment.resized_crop.emplace();
  options.augment.rand_augment.emplace();
  options.mix = {0.8, 1.0};
  return options;
}

void time_loader(const char* name, const std::shared_ptr<adaact::ImageFolder>& folder,
                 const adaact::LoaderOptions& options, std::int64_t rounds) {
  adaact::Loader loader(folder, options);
  Rounds speeds;
  for (std::int64_t round = 0; round <= rounds; ++round) {
    std::int64_t images = 0;
    torch::Tensor last;
    const auto begin = std::chrono::steady_clock::now();
    loader.start(round);
    while (const auto batch = loader.next()) {
      // Converted there: to a GPU and another type at once would be converted on the CPU.
      last = batch->images.to(torch::kCUDA, /*non_blocking=*/true).to(torch::kBFloat16);
      images += batch->size();
    }
    c10::cuda::getCurrentCUDAStream().synchronize();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (round > 0) speeds.add(static_cast<double>(images) / taken.count());
  }
  speeds.print(name, "images/s");
}

void time_loaders(const char* root, const Sizes& sizes) {
  adaact::ImageFolderOptions of_folder;
  of_folder.root = root;
  of_folder.image_size = sizes.side;
  of_folder.memory_for_decoded = 0;
  const auto folder = std::make_shared<adaact::ImageFolder>(of_folder);
  auto options = recipe(sizes);
  time_loader("all by the CPU", folder, options, sizes.rounds);
  options.device = torch::kCUDA;
  options.dtype = torch::kBFloat16;
  options.layout = adaact::ImageLayout::ChannelsLast;
  time_loader("decoding and scaling by the CPU", folder, options, sizes.rounds);
  if (!adaact::has_nvjpeg()) {
    std::printf("built without nvJPEG\n");
    return;
  }
  std::printf("nvJPEG decodes %s\n",
              adaact::JpegBatchDecoder(torch::kCUDA).in_hardware() ? "in hardware" : "by kernels");
  options.decode_at_once = true;
  time_loader("all by the GPU", folder, options, sizes.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || !torch::cuda::is_available()) {
    std::fprintf(stderr,
                 "usage: gpu_images PHOTOGRAPHS [BATCH [SIDE [WORKERS [ROUNDS]]]], on a GPU\n");
    return 2;
  }
  Sizes sizes;
  const std::vector<std::int64_t*> numbers{&sizes.batch, &sizes.side, &sizes.workers,
                                           &sizes.rounds};
  for (int i = 2; i < argc && i < 6; ++i) {
    *numbers[static_cast<std::size_t>(i - 2)] = std::max(1L, std::strtol(argv[i], nullptr, 10));
  }
  time_steps(sizes);
  time_loaders(argv[1], sizes);
  return 0;
}
