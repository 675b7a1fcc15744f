#pragma once

#include <string>
#include <string_view>

namespace adaact {

/// Bytes as letters, digits, + and /, filled up with = (RFC 4648).
std::string to_base64(std::string_view bytes);

/// Whether to_base64() could have written this.
bool is_base64(std::string_view text);

}  // namespace adaact
