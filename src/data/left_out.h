#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/name_list.h"

namespace adaact {

/// "3 files left out: 2 are not .jpg, .jpeg, .png or .webp (notes.txt, …), 1 cannot be decoded (b.png)".
class LeftOut {
 public:
  enum class Because : std::uint8_t {
    OfItsName,
    NotAFile,
    InNoClass,
    Undecodable,
    WithoutImage,
    NoShard
  };

  void add(Because reason, const std::filesystem::path& path);
  std::int64_t count() const;
  /// `where` comes after "files": " in train".
  std::string text(const std::string& where) const;

  void put_into(TensorFile& file) const;
  static LeftOut taken_from(const TensorFile& file);

 private:
  struct Files {
    std::int64_t count = 0;
    std::vector<std::string> first_names;
  };
  std::array<Files, 6> files_;  // by reason
};

inline constexpr char kImageNames[] = ".jpg, .jpeg, .png or .webp";

}  // namespace adaact
