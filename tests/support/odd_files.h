#pragma once

// What may stand where a file is expected.

#include <filesystem>
#include <stdexcept>
#include <string>

#include <sys/stat.h>

namespace adaact::testing {

/// A pipe that nobody writes to: whoever opens it the ordinary way waits for ever.
inline std::filesystem::path make_pipe(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::remove(path);
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("no pipe " + path.string());
  return path;
}

/// JSON whose arrays lie in one another, far deeper than the stack of a parser that calls itself.
inline std::string deep_json(std::size_t depth = 100'000) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace adaact::testing
