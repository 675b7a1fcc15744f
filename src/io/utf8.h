#pragma once

#include <string>

namespace adaact {

/// JSON, and with it everything that is saved here, can only hold such text.
bool is_utf8(const std::string& text);

}  // namespace adaact
