#pragma once

#include <exception>
#include <filesystem>
#include <string>

#include <c10/util/Exception.h>

namespace adaact {

/// What went wrong, in words for a user: without a backtrace, and of a file its name and the reason.
inline std::string error_text(const std::exception& error) {
  if (const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error)) {
    return of_libtorch->what_without_backtrace();
  }
  if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return of_file->path1().string() + ": " + of_file->code().message();
  }
  return error.what();
}

/// error_text() without the name of the tool, for a line that begins with it anyway.
inline std::string error_text_within_line(const std::exception& error) {
  const auto text = error_text(error);
  const std::string name = "adaact: ";
  return text.compare(0, name.size(), name) == 0 ? text.substr(name.size()) : text;
}

}  // namespace adaact
