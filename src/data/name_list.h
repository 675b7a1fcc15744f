#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <adaact/io/safetensors.h>

namespace adaact {

/// Many short texts in one piece of memory: of a million files a std::string or a path for each would take
/// several times as much.
class NameList {
 public:
  void add(std::string_view name);
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  std::string_view operator[](std::int64_t index) const;
  std::vector<std::string> strings() const;
  static NameList of(const std::vector<std::string>& names);

  /// In a file as `name`.bytes and `name`.ends; texts need not be UTF-8.
  void put_into(TensorFile& file, const std::string& name) const;
  static NameList taken_from(const TensorFile& file, const std::string& name);

 private:
  std::string bytes_;
  std::vector<std::int64_t> ends_;
};

/// Numbers as a tensor of a file, and back. What is there under the name but of another kind is an error.
void put_numbers(TensorFile& file, const std::string& name,
                 const std::vector<std::int64_t>& numbers);
std::vector<std::int64_t> take_numbers(const TensorFile& file, const std::string& name);

}  // namespace adaact
