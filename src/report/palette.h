#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace adaact {

/// Six colours that people with any of the common colour vision deficiencies can tell apart, each
/// with a contrast of at least 3 to 1 on its background; then the same with other dashes.
struct SeriesColour {
  const char* on_light;
  const char* on_dark;
};

inline constexpr std::array<SeriesColour, 6> kSeriesColours{{{"#1357d8", "#a0c2ff"},
                                                             {"#9c2f08", "#f08a62"},
                                                             {"#12916a", "#5eeab5"},
                                                             {"#e02aa5", "#f0559f"},
                                                             {"#a98b0c", "#f3d040"},
                                                             {"#4d1a6b", "#b866f7"}}};

/// Lengths of line and gap; the first is a solid line.
inline constexpr std::array<const char*, 4> kDashes{{"", "9,4", "3,3", "9,4,2,4"}};

inline std::size_t colour_of(std::size_t style) { return style % kSeriesColours.size(); }

inline const char* dashes_of(std::size_t style) {
  return kDashes[style / kSeriesColours.size() % kDashes.size()];
}

/// The CSS variable that holds the colour in both modes.
inline std::string colour_variable(std::size_t style) {
  return "--series-" + std::to_string(colour_of(style) + 1);
}

}  // namespace adaact
