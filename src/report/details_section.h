#pragma once

#include <cstddef>
#include <vector>

#include <adaact/train/test_details.h>

#include "report/markup.h"

namespace adaact {

/// Of more classes only the worst and the most frequent mistakes are shown.
inline constexpr std::size_t kMostClassesInMatrix = 20;
inline constexpr std::size_t kWorstClasses = 10;
inline constexpr std::size_t kMostMistakes = 15;

/// The classes with images, the least accurate first.
std::vector<std::size_t> worst_classes(const std::vector<TestDetails::OfClass>& classes);

/// Accuracy of each class, what it is taken for, and at most so many of the images that were most
/// confidently wrong.
Markup details_section(const TestDetails& details, std::size_t pictures);

}  // namespace adaact
