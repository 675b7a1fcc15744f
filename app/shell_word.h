#pragma once

#include <string>

namespace adaact::app {

/// A word as it must be written for a shell to read the same word.
inline std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./=,:@%+") == std::string::npos;
  if (plain && word.front() != '-') return word;
  if (plain) return "./" + word;  // else it would look like an option
  std::string inside;
  for (const char letter : word) {
    if (letter == '\'') inside += "'\\'";  // out of the quotes, the letter, and back in below
    inside += letter;
  }
  return "'" + inside + "'";
}

}  // namespace adaact::app
