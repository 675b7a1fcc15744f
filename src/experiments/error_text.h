#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace adaact {

/// What went wrong, for a message beside others: without a backtrace and without the name of the tool,
/// which stands at the beginning of the line anyway.
inline std::string error_text(const std::exception& error) {
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      of_libtorch != nullptr ? of_libtorch->what_without_backtrace() : error.what();
  const std::string name = "adaact: ";
  return text.compare(0, name.size(), name) == 0 ? text.substr(name.size()) : text;
}

}  // namespace adaact
