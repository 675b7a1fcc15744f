#pragma once

#include <string>
#include <string_view>

namespace adaact {

/// The same string, with � for bytes that are no UTF-8 and spaces for control characters.
std::string printable(std::string_view text);

/// Printable, with "; " for the end of a line and one space for several.
std::string in_one_line(std::string_view text);

/// In letters, not bytes. Of UTF-8.
std::size_t letters_in(std::string_view text);

}  // namespace adaact
