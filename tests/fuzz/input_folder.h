#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "fuzz/fuzz_target.h"

namespace adaact::fuzz {

/// A folder for readers that take a path. Its name has kInputName in it. scripts/fuzz.sh sets TMPDIR to a
/// place in memory.
class InputFolder {
 public:
  InputFolder() {
    auto name = (std::filesystem::temp_directory_path() / (kInputName + "_XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder " + name);
    path_ = name;
  }
  ~InputFolder() { std::filesystem::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// The path of a file with this name and these bytes.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    auto path = path_ / name;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace adaact::fuzz
