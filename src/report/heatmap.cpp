#include "report/heatmap.h"

#include <algorithm>
#include <cmath>

namespace adaact {

bool can_be_drawn(float value, const Heatmap& heatmap) {
  return std::isfinite(value) && (!heatmap.logarithmic || value > 0.0F);
}

bool is_drawable(const Heatmap& heatmap) {
  return std::any_of(heatmap.values.begin(), heatmap.values.end(),
                     [&](float value) { return can_be_drawn(value, heatmap); });
}

}  // namespace adaact
