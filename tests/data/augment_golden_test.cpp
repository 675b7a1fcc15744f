// Repeats the operations recorded in the directory named by ADAACT_AUGMENT_GOLDEN_DIR (by default the copies in
// tests/data/augment, see README.md there). Says on the way how many of them are equal to the bit; of the copies all
// must be, whereas other versions of timm and Pillow may differ a little.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/decode_image.h"
#include "data/image_operations.h"
#include "data/rand_augment.h"
#include "data/resample.h"
#include "data/rgb_planes.h"

namespace {

using adaact::decode_image;
using adaact::ImageOperation;
using adaact::ResampleFilter;
using adaact::RgbImage;
using adaact::testing::planes_of;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

fs::path recorded_directory() {
  const char* named = std::getenv("ADAACT_AUGMENT_GOLDEN_DIR");
  return named != nullptr ? named : ADAACT_AUGMENT_GOLDEN_DEFAULT_DIR;
}

ordered_json recorded_cases() {
  std::ifstream file(recorded_directory() / "cases.json");
  return ordered_json::parse(file);
}

const std::map<std::string, ImageOperation> kOperations{
    {"AutoContrast", ImageOperation::AutoContrast},
    {"Equalize", ImageOperation::Equalize},
    {"Invert", ImageOperation::Invert},
    {"Rotate", ImageOperation::Rotate},
    {"PosterizeIncreasing", ImageOperation::Posterize},
    {"SolarizeIncreasing", ImageOperation::Solarize},
    {"SolarizeAdd", ImageOperation::SolarizeAdd},
    {"ColorIncreasing", ImageOperation::Color},
    {"ContrastIncreasing", ImageOperation::Contrast},
    {"BrightnessIncreasing", ImageOperation::Brightness},
    {"SharpnessIncreasing", ImageOperation::Sharpness},
    {"ShearX", ImageOperation::ShearX},
    {"ShearY", ImageOperation::ShearY},
    {"TranslateXRel", ImageOperation::TranslateX},
    {"TranslateYRel", ImageOperation::TranslateY},
};

double number_or_zero(const ordered_json& value) {
  return value.is_number() ? value.get<double>() : 0.0;
}

ResampleFilter filter_of(const ordered_json& recorded) {
  return recorded.at("resample") == "bicubic" ? ResampleFilter::Bicubic : ResampleFilter::Bilinear;
}

RgbImage cut_out(const RgbImage& image, const std::vector<std::int64_t>& box) {
  const auto left = box.at(0);
  const auto top = box.at(1);
  RgbImage part{box.at(3), box.at(2), {}};
  for (std::int64_t y = 0; y < part.height; ++y) {
    const auto* row = image.pixels.data() + 3 * ((top + y) * image.width + left);
    part.pixels.insert(part.pixels.end(), row, row + 3 * part.width);
  }
  return part;
}

std::vector<std::uint8_t> planes_made(const ordered_json& recorded, const RgbImage& input) {
  const auto operation = recorded.at("op").get<std::string>();
  if (operation == "ResizedCrop") {
    const auto part = cut_out(input, recorded.at("box").get<std::vector<std::int64_t>>());
    const auto size = recorded.at("size").get<std::int64_t>();
    std::vector<std::uint8_t> planes(static_cast<std::size_t>(3 * size * size));
    adaact::resize_image({part.pixels.data(), part.height, part.width, 3}, filter_of(recorded),
                         /*mirrored=*/false, size, size, planes.data());
    return planes;
  }
  const auto planes = planes_of(input);
  std::vector<std::uint8_t> result(planes.size());
  adaact::apply_operation(kOperations.at(operation), number_or_zero(recorded.at("argument")),
                          filter_of(recorded), {3, input.height, input.width}, planes.data(),
                          result.data());
  return result;
}

/// The share of pixels that may be off by one.
double share_that_may_be_off() {
  constexpr double kOfOtherVersions = 0.005;
  return recorded_directory() == ADAACT_AUGMENT_GOLDEN_DEFAULT_DIR ? 0.0 : kOfOtherVersions;
}

/// Equal, or off by one at a few pixels where that may be. Returns whether it is equal.
bool expect_like(const std::vector<std::uint8_t>& actual, const RgbImage& expected) {
  const auto planes = planes_of(expected);
  EXPECT_EQ(actual.size(), planes.size());
  const auto pixels = static_cast<std::size_t>(expected.height * expected.width);
  const auto width = static_cast<std::size_t>(expected.width);
  std::size_t off = 0;
  int largest = 0;
  std::string first;
  for (std::size_t i = 0; i < pixels; ++i) {
    bool differs = false;
    for (std::size_t c = 0; c < 3; ++c) {
      const int is = actual[c * pixels + i];
      const int should_be = planes[c * pixels + i];
      if (is == should_be) continue;
      differs = true;
      largest = std::max(largest, std::abs(is - should_be));
      if (!first.empty()) continue;
      first = "the first at row " + std::to_string(i / width) + ", column " +
              std::to_string(i % width) + ", channel " + std::to_string(c) + ", which is " +
              std::to_string(is) + ", expected " + std::to_string(should_be);
    }
    off += differs ? 1 : 0;
  }
  const auto most_off =
      static_cast<std::size_t>(share_that_may_be_off() * static_cast<double>(pixels));
  EXPECT_TRUE(largest <= 1 && off <= most_off)
      << off << " of " << pixels << " pixels differ, by up to " << largest << "; " << first;
  return off == 0;
}

TEST(AugmentGolden, OperationsAreThoseRecorded) {
  const auto cases = recorded_cases();
  int equal = 0;
  for (const auto& recorded : cases) {
    SCOPED_TRACE(recorded.dump());
    const auto input = decode_image(recorded_directory() / recorded.at("input").get<std::string>());
    const auto output =
        decode_image(recorded_directory() / recorded.at("output").get<std::string>());
    equal += expect_like(planes_made(recorded, input), output) ? 1 : 0;
  }
  std::cout << equal << " of " << cases.size() << " are equal to the bit\n";
}

TEST(AugmentGolden, LevelsBecomeTheArgumentsRecorded) {
  for (const auto& recorded : recorded_cases()) {
    const auto operation = recorded.at("op").get<std::string>();
    if (!recorded.contains("level") || recorded.at("level").is_null()) continue;
    EXPECT_EQ(adaact::argument_at(kOperations.at(operation), recorded.at("level").get<double>(),
                                  recorded.at("sign").get<double>()),
              recorded.at("argument").get<double>())
        << recorded.dump();
  }
}

TEST(AugmentGolden, EveryOperationIsRecordedAndNoOther) {
  std::map<std::string, int> count;
  for (const auto& recorded : recorded_cases()) ++count[recorded.at("op").get<std::string>()];
  EXPECT_EQ(count.size(), kOperations.size() + 1);
  for (const auto& [name, operation] : kOperations) EXPECT_GT(count[name], 0) << name;
}

}  // namespace
