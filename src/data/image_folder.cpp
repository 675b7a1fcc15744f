#include <adaact/data/image_folder.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <system_error>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/resample.h"
#include "io/utf8.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().front() == '.'; }

bool has_image_name(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<std::string> subfolders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !is_hidden(entry.path())) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path split_folder(const ImageFolderOptions& options) {
  return options.root / (options.split == Split::Train ? "train" : "val");
}

DatasetInfo describe(const ImageFolderOptions& options) {
  TORCH_CHECK(options.image_size > 0, "image-folder: image_size is ", options.image_size,
              ", expected > 0");
  TORCH_CHECK(options.resize_size == 0 || options.resize_size >= options.image_size,
              "image-folder: resize_size is ", options.resize_size,
              ", expected 0 or >= ", options.image_size, ", the image_size");
  TORCH_CHECK(options.limit >= 0, "image-folder: limit is ", options.limit, ", expected >= 0");
  const auto folder = split_folder(options);
  TORCH_CHECK(fs::is_directory(folder), "adaact: there is no folder ", folder.string());
  const auto train = options.root / "train";
  const auto& of_classes = fs::is_directory(train) ? train : folder;
  DatasetInfo info{"image-folder",
                   {3, options.image_size, options.image_size},
                   subfolders(of_classes),
                   {{.485F, .456F, .406F}, {.229F, .224F, .225F}}};  // of ImageNet
  TORCH_CHECK(!info.class_names.empty(), "adaact: ", of_classes.string(),
              " has no class: expected a folder of images for each");
  for (const auto& name : info.class_names) {
    TORCH_CHECK(is_utf8(name), "adaact: the name of ", (of_classes / name).string(),
                " is not UTF-8, as the name of a class must be");
  }
  return info;
}

/// Why each image cannot be decoded; empty where it can be.
std::vector<std::string> find_defects(const std::vector<fs::path>& paths) {
  std::vector<std::string> defects(paths.size());
  std::atomic<std::size_t> next{0};
  const auto check = [&] {
    for (auto i = next++; i < paths.size(); i = next++) {
      try {
        decode_image(paths[i]);
      } catch (const c10::Error& error) {
        defects[i] = error.what_without_backtrace();
      } catch (const std::exception& error) {
        defects[i] = "adaact: " + paths[i].string() + ": " + error.what();
      }
    }
  };
  std::vector<std::thread> others;
  try {
    for (auto more = std::thread::hardware_concurrency(); more > 1; --more) {
      others.emplace_back(check);
    }
  } catch (const std::system_error&) {
    // Where no further thread can be started, those that run only take longer.
  }
  check();
  for (auto& thread : others) thread.join();
  return defects;
}

}  // namespace

ImageFolder::ImageFolder(const ImageFolderOptions& options)
    : Dataset(describe(options)),
      resize_size_(options.resize_size == 0 ? options.image_size : options.resize_size) {
  find_images(split_folder(options));
  thin_out(options.limit);
  if (options.skip_bad_images) skip_bad_images();
}

void ImageFolder::find_images(const fs::path& folder) {
  for (const auto& name : subfolders(folder)) {
    TORCH_CHECK(std::binary_search(class_names().begin(), class_names().end(), name),
                "adaact: ", (folder / name).string(),
                " is a class that the folder train does not have");
  }
  for (std::int64_t label = 0; label < classes(); ++label) {
    const auto of_class = folder / class_names()[static_cast<std::size_t>(label)];
    std::vector<fs::path> paths;
    if (fs::is_directory(of_class)) {
      for (const auto& entry : fs::directory_iterator(of_class)) {
        const auto& path = entry.path();
        if (entry.is_regular_file() && !is_hidden(path) && has_image_name(path)) {
          paths.push_back(path);
        }
      }
    }
    TORCH_CHECK(!paths.empty(), "adaact: ", of_class.string(),
                " is an empty class: it has no .jpg, .jpeg or .png file");
    std::sort(paths.begin(), paths.end());
    for (auto& path : paths) images_.push_back({std::move(path), label});
  }
}

void ImageFolder::thin_out(std::int64_t limit) {
  if (limit == 0 || limit >= size()) return;
  for (std::int64_t i = 0; i < limit; ++i) {
    images_[static_cast<std::size_t>(i)] = images_[static_cast<std::size_t>(i * size() / limit)];
  }
  images_.resize(static_cast<std::size_t>(limit));
}

void ImageFolder::skip_bad_images() {
  std::vector<fs::path> paths;
  for (const auto& image : images_) paths.push_back(image.path);
  const auto defects = find_defects(paths);
  std::vector<std::int64_t> sound(static_cast<std::size_t>(classes()), 0);
  std::vector<Image> kept;
  for (std::size_t i = 0; i < images_.size(); ++i) {
    if (defects[i].empty()) {
      kept.push_back(images_[i]);
      ++sound[static_cast<std::size_t>(images_[i].label)];
    } else {
      TORCH_WARN(defects[i], "; the image is left out");
      ++skipped_;
    }
  }
  for (const auto& image : images_) {
    TORCH_CHECK(sound[static_cast<std::size_t>(image.label)] > 0,
                "adaact: ", image.path.parent_path().string(),
                " is an empty class: none of its images can be decoded");
  }
  if (skipped_ > 0) TORCH_WARN(skipped_, " of ", images_.size(), " images are left out");
  images_ = std::move(kept);
}

const ImageFolder::Image& ImageFolder::image(std::int64_t index) const {
  check_index(index);
  return images_[static_cast<std::size_t>(index)];
}

std::int64_t ImageFolder::label(std::int64_t index) const { return image(index).label; }

const fs::path& ImageFolder::path(std::int64_t index) const { return image(index).path; }

void ImageFolder::read(std::int64_t index, std::uint8_t* pixels) const {
  resize_and_crop(decode_image(path(index)), resize_size_, shape().height, pixels);
}

}  // namespace adaact
