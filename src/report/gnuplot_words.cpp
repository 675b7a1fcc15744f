#include "report/gnuplot_words.h"

#include <cstdio>

#include "io/printable.h"

namespace adaact {
namespace {

/// gnuplot takes the label of a tick for a format.
std::string as_format(const std::string& label) {
  std::string format;
  for (const char character : label) format.append(character == '%' ? 2 : 1, character);
  return format;
}

}  // namespace

/// gnuplot 5.4 stumbles over a quotation mark at the beginning, even if it is doubled.
std::string quoted(const std::string& words) {
  std::string result = "'";
  for (const char character : printable(words)) {
    if (character == '\'') {
      result += "’";
    } else {
      result += character;
    }
  }
  return result + "'";
}

std::string quoted_path(const std::filesystem::path& path) {
  std::string result = "'";
  for (const char character : path.string()) {
    result += character;
    if (character == '\'') result += character;
  }
  return result + "'";
}

std::string digits(double value) {
  char result[32];
  std::snprintf(result, sizeof(result), "%.9g", value);
  return result;
}

std::string tick_list(const std::vector<Tick>& ticks) {
  std::string list;
  for (const auto& tick : ticks) {
    list +=
        (list.empty() ? "" : ", ") + quoted(as_format(tick.label)) + " " + digits(tick.position);
  }
  return list;
}

}  // namespace adaact
