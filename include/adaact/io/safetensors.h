#pragma once

#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>

#include <torch/types.h>

namespace adaact {

/// Named tensors with a few strings beside them, in the safetensors format: the project's one
/// format for optimizer state and weights. Everything this project writes carries a checksum of the
/// whole file under `adaact.checksum`, so that an altered byte anywhere is found on reading. The
/// bytes depend on the content alone: no time, no order of insertion.
class TensorFile {
 public:
  enum class Checksum {
    IfPresent,  // files of other programs have none
    Required,
  };

  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;

  /// Replaces the file atomically: after a crash or on a full disk the previous one is still whole.
  void write(const std::filesystem::path& path) const;
  void write(std::ostream& out) const;

  /// Errors name the source, what is wrong and, where it helps, the offset.
  static TensorFile read(const std::filesystem::path& path,
                         Checksum checksum = Checksum::IfPresent);
  static TensorFile read(std::istream& in, Checksum checksum = Checksum::IfPresent,
                         const std::string& source = "stream");

  /// The tensor of this name; an error that lists near names where there is none.
  const torch::Tensor& at(const std::string& name) const;

  std::string to_bytes() const;
  static TensorFile from_bytes(const std::string& bytes, Checksum checksum,
                               const std::string& source);
};

}  // namespace adaact
