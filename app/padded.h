#pragma once

#include <string>

#include "io/printable.h"

namespace adaact::app {

/// A text with as many spaces behind it as `width` letters need.
inline std::string padded(const std::string& text, std::size_t width) {
  const auto letters = letters_in(text);
  return text + std::string(letters < width ? width - letters : 0, ' ');
}

}  // namespace adaact::app
