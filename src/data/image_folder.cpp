#include <adaact/data/image_folder.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include <adaact/data/random_stream.h>
#include <c10/util/Exception.h>

#include "data/decode_image.h"
#include "data/decoded_images.h"
#include "data/image_listing.h"
#include "data/resample.h"
#include "io/joined.h"
#include "io/utf8.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Where the images of a split are.
struct FolderOfSplit {
  fs::path folder;      // of classes
  fs::path of_classes;  // which of them there are
  bool shared = false;  // with the other split
  std::string where;    // in remarks, after "files"
};

FolderOfSplit find_split(const ImageFolderOptions& options) {
  const auto parts = find_parts(options.root);
  const auto root = options.root.string();
  const auto& evaluation = parts.evaluation;
  if (options.validation > 0.0) {
    TORCH_CHECK(evaluation.empty(), "adaact: ", root, " has a folder ",
                evaluation.filename().string(),
                " to evaluate on: expected none beside --validation");
    return {parts.train, parts.train, true, options.split == Split::Train ? "" : " to test on"};
  }
  TORCH_CHECK(parts.divided || !subfolders(parts.train).empty(), "adaact: ", root,
              " has no class: expected a folder of images for each, or train/ and val/ with them");
  const bool evaluates = options.split == Split::Test;
  TORCH_CHECK(
      parts.divided ? !evaluation.empty() || !evaluates : evaluates, "adaact: ", root,
      " has no val/ or test/ folder: `--validation 0.1` splits off a tenth of the images of "
      "each class to evaluate on");
  if (!parts.divided) return {parts.train, parts.train, false, ""};
  if (evaluates) {
    return {evaluation, parts.train.empty() ? evaluation : parts.train, false,
            " in " + evaluation.filename().string()};
  }
  TORCH_CHECK(!parts.train.empty(), "adaact: there is no folder ",
              (options.root / "train").string());
  return {parts.train, parts.train, false, " in train"};
}

DatasetInfo describe(const ImageFolderOptions& options) {
  TORCH_CHECK(options.image_size > 0, "image-folder: image_size is ", options.image_size,
              ", expected > 0");
  TORCH_CHECK(options.resize_size == 0 || options.resize_size >= options.image_size,
              "image-folder: resize_size is ", options.resize_size,
              ", expected 0 or >= ", options.image_size, ", the image_size");
  TORCH_CHECK(options.limit >= 0, "image-folder: limit is ", options.limit, ", expected >= 0");
  TORCH_CHECK(options.validation >= 0.0 && options.validation < 1.0, "image-folder: validation is ",
              options.validation, ", expected [0, 1)");
  const auto of_classes = find_split(options).of_classes;
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

std::vector<std::string> missing_in(const std::vector<std::string>& names,
                                    const std::vector<std::string>& others) {
  std::vector<std::string> missing;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(),
                      std::back_inserter(missing));
  return missing;
}

void check_same_classes(const FolderOfSplit& split, const std::vector<std::string>& class_names) {
  const auto there = subfolders(split.folder);
  std::string difference;
  const auto add = [&](const fs::path& folder, const std::vector<std::string>& names) {
    if (names.empty()) return;
    difference += (difference.empty() ? "only " : "; only ") + folder.filename().string() +
                  " has " + joined(names);
  };
  add(split.of_classes, missing_in(class_names, there));
  add(split.folder, missing_in(there, class_names));
  TORCH_CHECK(difference.empty(), "adaact: the folders of ", split.folder.parent_path().string(),
              " have different classes, expected the same: ", difference);
}

/// One part of the images of a class, in their order: those to evaluate on or the others. Drawn by the
/// seed; each part has one image at least.
std::vector<fs::path> part_of_class(const std::vector<fs::path>& images, std::int64_t label,
                                    const ImageFolderOptions& options) {
  const auto count = static_cast<std::int64_t>(images.size());
  const auto share = std::llround(options.validation * static_cast<double>(count));
  const auto evaluated = std::clamp<std::int64_t>(share, 1, count - 1);
  std::vector<std::pair<std::uint64_t, std::int64_t>> drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto random =
        RandomStream(options.seed, RandomPurpose::Validation, static_cast<std::uint32_t>(label),
                     static_cast<std::uint32_t>(i))
            .block(0);
    drawn.emplace_back((std::uint64_t{random.words[1]} << 32) | random.words[0], i);
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<bool> is_evaluated(images.size(), false);
  for (std::int64_t i = 0; i < evaluated; ++i) {
    is_evaluated[static_cast<std::size_t>(drawn[static_cast<std::size_t>(i)].second)] = true;
  }
  std::vector<fs::path> part;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (is_evaluated[i] == (options.split == Split::Test)) part.push_back(images[i]);
  }
  return part;
}

/// Calls work(i) for i = 0 … count - 1, on all cores.
template <typename Work>
void on_all_cores(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (auto i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  try {
    for (auto more = std::thread::hardware_concurrency(); more > 1; --more) {
      others.emplace_back(take);
    }
  } catch (const std::system_error&) {
    // Where no further thread can be started, those that run only take longer.
  }
  take();
  for (auto& thread : others) thread.join();
}

}  // namespace

ImageFolder::ImageFolder(const ImageFolderOptions& options)
    : Dataset(describe(options)),
      resize_size_(options.resize_size == 0 ? options.image_size : options.resize_size) {
  LeftOut left_out;
  const auto where = find_images(options, left_out);
  thin_out(options.limit);
  decoded_ =
      std::make_unique<DecodedImages>(images_.size(), static_cast<std::size_t>(shape().bytes()));
  for (std::size_t i = 0; i < images_.size(); ++i) images_[i].place = i;
  if (options.skip_bad_images) skip_bad_images(left_out);
  if (left_out.count() > 0) add_remark(left_out.text(where));
}

ImageFolder::~ImageFolder() = default;

std::string ImageFolder::find_images(const ImageFolderOptions& options, LeftOut& left_out) {
  const auto split = find_split(options);
  if (split.folder != split.of_classes) check_same_classes(split, class_names());
  leave_out_files_of(split.folder, left_out);
  for (std::int64_t label = 0; label < classes(); ++label) {
    const auto of_class = split.folder / class_names()[static_cast<std::size_t>(label)];
    const auto others = left_out.count();
    auto paths = images_below(of_class, {options.root, split.folder}, left_out);
    const auto others_here = left_out.count() - others;
    TORCH_CHECK(!paths.empty(), "adaact: ", of_class.string(),
                " is an empty class: it has no file that ends in ", kImageNames,
                others_here == 0 ? "" : ", and " + std::to_string(others_here) + " other");
    if (split.shared) {
      TORCH_CHECK(paths.size() > 1, "adaact: ", of_class.string(),
                  " has 1 image, expected 2 at least: one to train on and one to evaluate on");
      paths = part_of_class(paths, label, options);
    }
    for (auto& path : paths) images_.push_back({std::move(path), label, 0});
  }
  // Of a folder that both splits share, the first of them tells.
  if (split.shared && options.split == Split::Test) left_out = {};
  const auto unused = find_parts(options.root).unused_test;
  if (options.split == Split::Test && !unused.empty()) {
    add_remark(unused.filename().string() + "/ is not used: " + split.folder.filename().string() +
               "/ is there to evaluate on");
  }
  return split.where;
}

void ImageFolder::thin_out(std::int64_t limit) {
  if (limit == 0 || limit >= size()) return;
  for (std::int64_t i = 0; i < limit; ++i) {
    images_[static_cast<std::size_t>(i)] = images_[static_cast<std::size_t>(i * size() / limit)];
  }
  images_.resize(static_cast<std::size_t>(limit));
}

void ImageFolder::skip_bad_images(LeftOut& left_out) {
  std::vector<std::string> defects(images_.size());  // why an image cannot be decoded; else empty
  on_all_cores(images_.size(), [&](std::size_t i) {
    try {
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape().bytes()));
      read(static_cast<std::int64_t>(i), pixels.data());
    } catch (const c10::Error& error) {
      defects[i] = error.what_without_backtrace();
    } catch (const std::exception& error) {
      defects[i] = "adaact: " + images_[i].path.string() + ": " + error.what();
    }
  });
  std::vector<std::int64_t> sound(static_cast<std::size_t>(classes()), 0);
  std::vector<Image> kept;
  for (std::size_t i = 0; i < images_.size(); ++i) {
    if (defects[i].empty()) {
      kept.push_back(images_[i]);
      ++sound[static_cast<std::size_t>(images_[i].label)];
    } else {
      TORCH_WARN(defects[i], "; the image is left out");
      left_out.add(LeftOut::Because::Undecodable, images_[i].path);
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

const std::uint8_t* ImageFolder::pixels(std::int64_t index) const {
  return decoded_->find(image(index).place);
}

void ImageFolder::read(std::int64_t index, std::uint8_t* pixels) const {
  const auto& [path, label, place] = image(index);
  if (const auto* there = decoded_->find(place); there != nullptr) {
    std::memcpy(pixels, there, static_cast<std::size_t>(shape().bytes()));
    return;
  }
  resize_and_crop(decode_image(path, enough_to_resize(resize_size_)), resize_size_, shape().height,
                  pixels);
  decoded_->keep(place, pixels);
}

}  // namespace adaact
