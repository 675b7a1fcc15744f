#pragma once

#include <string>

#include "report/plot.h"

namespace adaact {

/// What page_script.js draws a plot from: JSON in one line that may stand within an element of a page. Numbers
/// have five digits, which is more than a screen shows; of a long series some points are left out, evenly.
std::string plot_data(const Plot& plot, const std::string& id);

}  // namespace adaact
