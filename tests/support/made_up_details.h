#pragma once

// What a test says in detail, without a test.

#include <filesystem>
#include <fstream>
#include <string>

#include <adaact/train/test_details.h>

namespace adaact::testing {

/// A PNG of one red pixel.
inline const std::string kRedPixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// Of every class nine of ten images are right, of the first one five; the others are taken for the next
/// class.
inline TestDetails made_up_details(int classes) {
  TestDetails details;
  for (std::int64_t label = 0; label < classes; ++label) {
    details.classes.push_back("class <" + std::to_string(label) + ">");
    const std::int64_t right = label == 0 ? 5 : 9;
    const auto other = (label + 1) % classes;
    details.confusions.push_back({label, label, right});
    details.confusions.push_back({label, other, 10 - right});
    if (details.most_wrong.size() < kMostWrongImages) {
      details.most_wrong.push_back(
          {label * 10, label, other, 0.99 - 0.01 * static_cast<double>(label), kRedPixel});
    }
  }
  return details;
}

inline void write_details(const std::filesystem::path& run, int classes) {
  std::ofstream(run / "test_details.json") << made_up_details(classes).to_json();
}

}  // namespace adaact::testing
