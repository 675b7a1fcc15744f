#pragma once

// The part of the tar format that shards of images are made of: regular files with short names, uncompressed.

#include <array>
#include <cstdint>
#include <string>

namespace adaact {

/// Everything in a tar archive begins at a multiple of this.
inline constexpr std::int64_t kTarBlock = 512;
using TarBlock = std::array<char, kTarBlock>;

/// What so many bytes take in an archive.
inline constexpr std::int64_t in_tar_blocks(std::int64_t bytes) {
  return (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
}

struct TarEntry {
  enum class Kind : std::uint8_t {
    File,
    AboutNext,  // what a header has no room for, of the entry after it
    Other,      // a folder, a link
  };

  std::string name;
  std::int64_t bytes = 0;
  Kind kind = Kind::File;
};

/// The header of a regular file: by nobody, of no time, so that equal files make equal archives.
TarBlock tar_header(const std::string& name, std::int64_t bytes);

/// What a header says; an error that says what is wrong with it, without the file's name. Archives end in
/// blocks of zeros (is_end_of_tar), which are none.
TarEntry parse_tar_header(const TarBlock& block);
bool is_end_of_tar(const TarBlock& block);

}  // namespace adaact
