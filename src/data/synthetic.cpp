#include <adaact/data/synthetic.h>

#include <string>
#include <utility>
#include <vector>

#include <adaact/data/random_stream.h>
#include <c10/util/Exception.h>

namespace adaact {
namespace {

constexpr std::int64_t kCells = 4;  // along a side: what remains of a pattern under a crop or flip
constexpr std::uint32_t kPatternEpoch = 0;  // the splits come after it

/// Levels 64 … 191, (C, H, W): a grid of kCells × kCells plain cells in every channel.
std::vector<std::uint8_t> make_pattern(const ImageShape& shape, std::uint64_t seed,
                                       std::uint32_t label) {
  RandomStream random(seed, RandomPurpose::Synthesize, kPatternEpoch, label);
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(shape.channels * kCells * kCells));
  for (auto& level : levels) level = static_cast<std::uint8_t>(64 + random.below(128));
  std::vector<std::uint8_t> pattern;
  pattern.reserve(static_cast<std::size_t>(shape.bytes()));
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    for (std::int64_t y = 0; y < shape.height; ++y) {
      const auto* row = levels.data() + (c * kCells + y * kCells / shape.height) * kCells;
      for (std::int64_t x = 0; x < shape.width; ++x) {
        pattern.push_back(row[x * kCells / shape.width]);
      }
    }
  }
  return pattern;
}

/// Noise of -64 … 63, so that the sum with a pattern never leaves a byte.
void add_noise(const std::vector<std::uint8_t>& pattern, const RandomStream& random,
               std::uint8_t* image) {
  constexpr std::size_t kBytes = 16;  // of a block
  for (std::size_t begin = 0; begin < pattern.size(); begin += kBytes) {
    const auto block = random.block(static_cast<std::uint32_t>(begin / kBytes));
    for (std::size_t i = 0; i < kBytes && begin + i < pattern.size(); ++i) {
      const auto noise = ((block.words[i / 4] >> (8 * (i % 4))) & 0x7FU);
      image[begin + i] = static_cast<std::uint8_t>(pattern[begin + i] + noise - 64);
    }
  }
}

}  // namespace

std::shared_ptr<ImageTensorDataset> make_synthetic(const SyntheticOptions& options) {
  TORCH_CHECK(options.size > 0, "synthetic: size is ", options.size, ", expected > 0");
  TORCH_CHECK(options.classes > 0, "synthetic: classes is ", options.classes, ", expected > 0");
  const auto& shape = options.shape;
  DatasetInfo info{"synthetic", shape, {}, {}};
  std::vector<std::vector<std::uint8_t>> patterns;
  for (std::int64_t label = 0; label < options.classes; ++label) {
    info.class_names.push_back(std::to_string(label));
    patterns.push_back(make_pattern(shape, options.seed, static_cast<std::uint32_t>(label)));
  }
  // Uniform levels plus uniform noise: 2 · 128²/12 is the variance.
  info.normalization.mean.assign(static_cast<std::size_t>(shape.channels), 0.5F);
  info.normalization.std.assign(static_cast<std::size_t>(shape.channels), 0.205F);

  auto images =
      torch::empty({options.size, shape.channels, shape.height, shape.width}, torch::kByte);
  const auto labels = torch::arange(options.size, torch::kLong).remainder(options.classes);
  const std::uint32_t split = options.split == Split::Train ? 1 : 2;
  auto* image = images.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < options.size; ++i, image += shape.bytes()) {
    const RandomStream random(options.seed, RandomPurpose::Synthesize, split,
                              static_cast<std::uint32_t>(i));
    add_noise(patterns[static_cast<std::size_t>(i % options.classes)], random, image);
  }
  return std::make_shared<ImageTensorDataset>(std::move(info), images, labels);
}

}  // namespace adaact
