// How fast a pass over packed shards is, beside one over the files that they were packed from:
//
//   adaact pack IMAGES SHARDS
//   build/release/bench/shards_bench IMAGES SHARDS [ROUNDS]
//
// Both have a train/ folder; the first round, which brings all of it into the page cache, is not counted. Rounds
// alternate between the two. A ratio above 1 means that shards are faster.

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

#include "data/encoded_images.h"

namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A value of a sorted list at a share of its length.
double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

void compare(const char* name, std::int64_t images, int rounds, const std::function<void()>& files,
             const std::function<void()>& shards) {
  std::vector<double> of_files;
  std::vector<double> of_shards;
  std::vector<double> ratios;
  files();
  shards();
  for (int round = 0; round < rounds; ++round) {
    of_files.push_back(seconds_of(files));
    of_shards.push_back(seconds_of(shards));
    ratios.push_back(of_files.back() / of_shards.back());
  }
  for (auto* times : {&of_files, &of_shards, &ratios}) std::sort(times->begin(), times->end());
  const auto speed = [&](const std::vector<double>& times) {
    return static_cast<double>(images) / quantile(times, 0.5);
  };
  std::printf("%-34s %10.0f %10.0f   %.3f [%.3f, %.3f]\n", name, speed(of_files), speed(of_shards),
              quantile(ratios, 0.5), quantile(ratios, 0.1), quantile(ratios, 0.9));
  std::fflush(stdout);
}

std::function<void()> read_bytes(const fs::path& root) {
  const auto images = adaact::open_images(root / "train", root);
  return [images] {
    for (std::int64_t i = 0; i < images->size(); ++i) images->read(i);
  };
}

/// Batches as a training gets them, decoded anew each time.
std::function<void()> load(const fs::path& root, std::int64_t workers) {
  adaact::ImageFolderOptions folder;
  folder.root = root;
  folder.memory_for_decoded = 0;
  auto options = adaact::LoaderOptions::training();
  options.batch_size = 64;
  options.workers = workers;
  options.prefetch = 4;
  const auto loader =
      std::make_shared<adaact::Loader>(std::make_shared<adaact::ImageFolder>(folder), options);
  return [loader] {
    loader->start(/*epoch=*/0);
    while (loader->next()) {
    }
  };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "shards_bench IMAGES SHARDS [ROUNDS]\n");
    return 2;
  }
  const fs::path files = argv[1];
  const fs::path shards = argv[2];
  const int rounds = std::max(argc > 3 ? std::atoi(argv[3]) : 11, 1);
  const auto images = adaact::open_images(files / "train", files)->size();
  std::printf("%ld images, %d rounds; images/s, median; ratio, median [10 %%, 90 %%]\n", images,
              rounds);
  std::printf("%-34s %10s %10s   %s\n", "", "files", "shards", "ratio");
  compare("bytes, in order", images, rounds, read_bytes(files), read_bytes(shards));
  compare("batches of 64, without workers", images, rounds, load(files, 0), load(shards, 0));
  compare("batches of 64, 2 workers", images, rounds, load(files, 2), load(shards, 2));
  return 0;
}
