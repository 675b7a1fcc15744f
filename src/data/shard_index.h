#pragma once

// Which images are where in the shards of a folder: uncompressed tar archives in WebDataset's form, in which
// 00000001.jpg is an image and 00000001.cls beside it the number of its class.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/left_out.h"
#include "data/name_list.h"

namespace adaact {

inline constexpr char kShardEnding[] = ".tar";
inline constexpr char kShardIndex[] = "index.safetensors";
/// Optional, for shards of other programs: names of the classes, a line each.
inline constexpr char kClassesFile[] = "classes.txt";

struct ShardIndex {
  std::vector<std::string> classes;
  bool has_class_names = true;            // false: the classes are called by their numbers
  std::vector<std::string> shards;        // names of their files, in order
  std::vector<std::int64_t> shard_bytes;  // size of each
  std::vector<std::int64_t> shard_ends;   // of the images of each

  // Of every image, in the order in which they lie in the shards:
  NameList names;                     // as in the shard
  std::vector<std::int64_t> offsets;  // of its header in the shard
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> checksums;  // CRC-32; none for shards of other programs

  LeftOut left_out;

  std::int64_t size() const { return names.size(); }
  std::int64_t shard_of(std::int64_t image) const;
  void add(const std::string& name, std::int64_t offset, std::int64_t image_bytes,
           std::int64_t label);
};

bool has_shard_index(const std::filesystem::path& folder);

/// Whether the images of a folder are in shards. With an index they are, whatever else lies there; without one,
/// archives beside folders are an error.
bool has_shards(const std::filesystem::path& folder);

/// The index that `adaact pack` writes beside its shards. Errors name the file; an archive in the folder that the
/// index does not name is one.
void write_shard_index(const ShardIndex& index, const std::filesystem::path& folder);
ShardIndex read_shard_index(const std::filesystem::path& folder);

/// Makes the index of shards that came without one, by a look at all headers in them.
ShardIndex scan_shards(const std::filesystem::path& folder);

/// The lines of classes.txt, beside the shards or, of a split, in the folder above; none where there is none.
std::vector<std::string> classes_in_file(const std::filesystem::path& folder);

/// The archives in a folder, by name.
std::vector<std::string> names_of_shards(const std::filesystem::path& folder);

/// Adds the files and folders beside the shards that are neither shards nor about them.
void leave_out_what_is_no_shard(const std::filesystem::path& folder, LeftOut& left_out);

std::int64_t checksum_of_image(const std::vector<std::uint8_t>& bytes);

/// An error for a class that no image is of.
void check_classes_have_images(const ShardIndex& index, const std::filesystem::path& folder);

}  // namespace adaact
