#pragma once

#include <string>
#include <string_view>

namespace adaact {

/// A text with � for bytes that are no UTF-8 and spaces for control characters.
std::string printable(std::string_view text);

/// printable() text, with "; " for the end of a line and one space for several.
std::string in_one_line(std::string_view text);

/// The length of a UTF-8 text in letters, not bytes.
std::size_t letters_in(std::string_view text);

}  // namespace adaact
