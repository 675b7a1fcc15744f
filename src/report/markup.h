#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaact {

/// HTML. Only text() makes it from a string that may hold anything, so nothing is put into a page
/// unescaped by mistake.
struct Markup {
  std::string html;

  Markup& operator+=(const Markup& other) {
    html += other.html;
    return *this;
  }
  friend Markup operator+(Markup left, const Markup& right) { return left += right; }
};

/// Any string as HTML: escaped, also for attributes. Bytes that are no UTF-8 are shown as �.
Markup text(std::string_view value);

using Attributes = std::vector<std::pair<std::string, std::string>>;

/// <name attribute="value">content</name>; values are escaped.
Markup element(const std::string& name, const Attributes& attributes, const Markup& content);
Markup element(const std::string& name, const Markup& content);

/// A path relative to the page, as an address.
std::string relative_address(const std::string& path);

}  // namespace adaact
