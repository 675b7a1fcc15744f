#pragma once

#include <string>

namespace adaact {

/// Whether a text is UTF-8: JSON, and with it everything that is saved here, can hold no other.
bool is_utf8(const std::string& text);

}  // namespace adaact
