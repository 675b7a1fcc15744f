#include <algorithm>
#include <cstring>

#include "data/image_batch_maker.h"
#include "data/image_batch_steps.h"

namespace adaact {
namespace {

class LoopExecutor {
 public:
  static torch::Device device() { return torch::kCPU; }

  template <typename Work>
  void each(std::int64_t images, const Work& work) const {
    for (std::int64_t image = 0; image < images; ++image) {
      for (int element = 0; element < work.elements(image); ++element) work(image, element);
    }
  }

  void count(std::int64_t images, const CountedLevels& levels, std::int32_t* counts) const {
    for (std::int64_t image = 0; image < images; ++image) {
      for (int channel = 0; channel < 3; ++channel, counts += kLevels) {
        if (!levels.are_wanted(image, channel)) continue;
        std::fill_n(counts, kLevels, 0);
        for (int pixel = 0; pixel < levels.in.pixels(); ++pixel) {
          ++counts[levels.at(image, channel, pixel)];
        }
      }
    }
  }

  template <typename T>
  torch::Tensor copy(const std::vector<T>& numbers) const {
    const auto bytes = numbers.size() * sizeof(T);
    auto there = torch::empty({static_cast<std::int64_t>(bytes)}, torch::kByte);
    if (bytes > 0) std::memcpy(there.data_ptr(), numbers.data(), bytes);
    return there;
  }
};

}  // namespace

std::unique_ptr<ImageBatchMaker> image_batch_maker_reference(const ImageBatchFormat& format) {
  return std::make_unique<ImageBatchSteps<LoopExecutor>>(format, LoopExecutor());
}

}  // namespace adaact
