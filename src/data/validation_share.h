#pragma once

#include <filesystem>
#include <vector>

#include <adaact/data/image_folder.h>

#include "data/encoded_images.h"

namespace adaact {

/// Whether each image of a folder belongs to the split, where both have a part of every class, drawn by the
/// seed.
std::vector<bool> images_of_split(const EncodedImages& images, const std::filesystem::path& folder,
                                  const ImageFolderOptions& options);

}  // namespace adaact
