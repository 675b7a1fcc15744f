#include "report/markup.h"

#include <cstdio>

#include "io/printable.h"

namespace adaact {
namespace {

std::string escaped(std::string_view value) {
  std::string result;
  for (const char character : printable(value)) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

bool is_plain_in_address(unsigned char byte) {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  const bool digit = byte >= '0' && byte <= '9';
  return letter || digit ||
         std::string_view("-._~/").find(static_cast<char>(byte)) != std::string_view::npos;
}

}  // namespace

Markup text(std::string_view value) { return {escaped(value)}; }

Markup element(const std::string& name, const Attributes& attributes, const Markup& content) {
  std::string html = "<" + name;
  for (const auto& [attribute, value] : attributes) {
    html += " " + attribute + "=\"" + escaped(value) + "\"";
  }
  return {html + ">" + content.html + "</" + name + ">"};
}

Markup element(const std::string& name, const Markup& content) {
  return element(name, Attributes{}, content);
}

std::string relative_address(const std::string& path) {
  // With the dot, a colon in the first name does not look like the end of "https:".
  std::string address = "./";
  for (const char character : path) {
    const auto byte = static_cast<unsigned char>(character);
    if (is_plain_in_address(byte)) {
      address += character;
    } else {
      char code[4];
      std::snprintf(code, sizeof(code), "%%%02X", byte);
      address += code;
    }
  }
  return address;
}

}  // namespace adaact
