#include "data/encoded_images.h"

#include "data/folder_images.h"
#include "data/shard_images.h"

namespace adaact {

namespace fs = std::filesystem;

std::shared_ptr<const EncodedImages> open_images(const fs::path& folder, const fs::path& root) {
  if (has_shards(folder)) return open_shards(folder);
  return std::make_shared<FolderImages>(folder, root);
}

std::vector<std::string> class_names_in(const fs::path& folder) {
  return has_shards(folder) ? class_names_of_shards(folder) : subfolders(folder);
}

bool has_classes(const fs::path& folder) {
  return !subfolders(folder).empty() || has_shards(folder);
}

}  // namespace adaact
