#pragma once

#include <string>

namespace adaact {

/// The style sheet of every page that adaact writes: light and dark, phone and desktop.
std::string page_style();

}  // namespace adaact
