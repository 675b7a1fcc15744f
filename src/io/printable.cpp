#include "io/printable.h"

#include <algorithm>

#include "io/utf8.h"

namespace adaact {

std::string printable(std::string_view text) {
  const bool valid = is_utf8(std::string(text));
  std::string result;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      result += ' ';
    } else if (byte >= 0x80 && !valid) {
      result += "\xEF\xBF\xBD";
    } else {
      result += character;
    }
  }
  return result;
}

std::string in_one_line(std::string_view text) {
  std::string joined;
  for (const char character : text) {
    const bool ends_a_sentence = !joined.empty() && joined.back() != ':' && joined.back() != ';';
    if (character == '\n' && ends_a_sentence) joined += ';';
    joined += character;
  }
  std::string line;
  for (const char character : printable(joined)) {
    if (character != ' ' || (!line.empty() && line.back() != ' ')) line += character;
  }
  while (!line.empty() && (line.back() == ' ' || line.back() == ';')) line.pop_back();
  return line;
}

std::size_t letters_in(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

}  // namespace adaact
