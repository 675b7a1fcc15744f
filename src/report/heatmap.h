#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace adaact {

/// A matrix as a picture: a colour for each value, the first row at the top.
struct Heatmap {
  std::string title;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;  // row by row
  bool logarithmic = false;   // the scale of the colours
};

/// Whether a value has a colour. One that is not finite, or not positive on a logarithmic scale, is
/// left blank.
bool can_be_drawn(float value, const Heatmap& heatmap);

/// Whether any of its values can be drawn.
bool is_drawable(const Heatmap& heatmap);

}  // namespace adaact
