#include "data/validation_share.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <adaact/data/random_stream.h>
#include <c10/util/Exception.h>

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Which images of a class are to evaluate on: drawn by the seed, one at least, and not all.
std::vector<bool> drawn_to_evaluate(std::int64_t count, std::int64_t label,
                                    const ImageFolderOptions& options) {
  const auto share = std::llround(options.validation * static_cast<double>(count));
  const auto evaluated = std::clamp<std::int64_t>(share, 1, count - 1);
  std::vector<std::pair<std::uint64_t, std::int64_t>> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto random =
        RandomStream(options.seed, RandomPurpose::Validation, static_cast<std::uint32_t>(label),
                     static_cast<std::uint32_t>(i))
            .block(0);
    drawn.emplace_back((std::uint64_t{random.words[1]} << 32) | random.words[0], i);
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<bool> is_evaluated(static_cast<std::size_t>(count), false);
  for (std::int64_t i = 0; i < evaluated; ++i) {
    is_evaluated[static_cast<std::size_t>(drawn[static_cast<std::size_t>(i)].second)] = true;
  }
  return is_evaluated;
}

/// How many images there are of each class.
std::vector<std::int64_t> counts_of_classes(const EncodedImages& images) {
  std::vector<std::int64_t> counts(images.class_names().size(), 0);
  for (std::int64_t i = 0; i < images.size(); ++i) {
    ++counts[static_cast<std::size_t>(images.label(i))];
  }
  return counts;
}

}  // namespace

std::vector<bool> images_of_split(const EncodedImages& images, const fs::path& folder,
                                  const ImageFolderOptions& options) {
  const auto counts = counts_of_classes(images);
  std::vector<std::vector<bool>> evaluated;
  for (std::size_t label = 0; label < counts.size(); ++label) {
    TORCH_CHECK(counts[label] > 1, "adaact: ", (folder / images.class_names()[label]).string(),
                " has 1 image, expected 2 at least: one to train on and one to evaluate on");
    evaluated.push_back(
        drawn_to_evaluate(counts[label], static_cast<std::int64_t>(label), options));
  }
  std::vector<bool> chosen;
  std::vector<std::size_t> before(counts.size(), 0);  // of the class, in the order of the images
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto label = static_cast<std::size_t>(images.label(i));
    chosen.push_back(evaluated[label][before[label]++] == (options.split == Split::Test));
  }
  return chosen;
}

}  // namespace adaact
