#include <adaact/data/image_folder.h>

#include <cstring>
#include <utility>

#include <c10/util/Exception.h>

#include "data/checked_images.h"
#include "data/decode_image.h"
#include "data/decoded_images.h"
#include "data/encoded_images.h"
#include "data/resample.h"
#include "data/split_folders.h"
#include "data/validation_share.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

void check_options(const ImageFolderOptions& options) {
  TORCH_CHECK(options.image_size > 0, "image-folder: image_size is ", options.image_size,
              ", expected > 0");
  TORCH_CHECK(options.resize_size == 0 || options.resize_size >= options.image_size,
              "image-folder: resize_size is ", options.resize_size,
              ", expected 0 or >= ", options.image_size, ", the image_size");
  TORCH_CHECK(options.limit >= 0, "image-folder: limit is ", options.limit, ", expected >= 0");
  TORCH_CHECK(options.memory_for_decoded >= 0, "image-folder: memory_for_decoded is ",
              options.memory_for_decoded, ", expected >= 0");
  TORCH_CHECK(options.validation >= 0.0 && options.validation < 1.0, "image-folder: validation is ",
              options.validation, ", expected [0, 1)");
}

FolderOfSplit checked_split(const ImageFolderOptions& options) {
  check_options(options);
  return find_split(options);
}

DatasetInfo describe(const ImageFolderOptions& options, const FolderOfSplit& split,
                     const EncodedImages& images) {
  TORCH_CHECK(!images.class_names().empty(), "adaact: ", split.folder.string(),
              " has no class: expected a folder of images for each");
  if (split.folder != split.of_classes) {
    check_same_classes({split.of_classes, class_names_in(split.of_classes)},
                       {split.folder, images.class_names()});
  }
  return {"image-folder",
          {3, options.image_size, options.image_size},
          images.class_names(),
          {{.485F, .456F, .406F}, {.229F, .224F, .225F}}};  // of ImageNet
}

}  // namespace

ImageFolder::ImageFolder(const ImageFolderOptions& options)
    : ImageFolder(options, checked_split(options)) {}

ImageFolder::ImageFolder(const ImageFolderOptions& options, const FolderOfSplit& split)
    : ImageFolder(options, split, open_images(split.folder, options.root)) {}

ImageFolder::ImageFolder(const ImageFolderOptions& options, const FolderOfSplit& split,
                         std::shared_ptr<const EncodedImages> encoded)
    : Dataset(describe(options, split, *encoded)),
      encoded_(std::move(encoded)),
      resize_size_(options.resize_size == 0 ? options.image_size : options.resize_size) {
  choose_images(options, split);
  thin_out(options.limit);
  // Of a folder that both splits share, the first of them tells.
  auto left_out = split.shared && options.split == Split::Test ? LeftOut() : encoded_->left_out();
  if (!split.remark.empty()) add_remark(split.remark);
  if (options.skip_bad_images) skip_bad_images(split.folder, options.ranks, left_out);
  if (left_out.count() > 0) add_remark(left_out.text(split.where));
  decoded_ =
      std::make_unique<DecodedImages>(images_.size(), static_cast<std::size_t>(shape().bytes()),
                                      static_cast<std::size_t>(options.memory_for_decoded));
}

ImageFolder::~ImageFolder() = default;

bool ImageFolder::has_class_names() const { return encoded_->has_class_names(); }

void ImageFolder::choose_images(const ImageFolderOptions& options, const FolderOfSplit& split) {
  const auto chosen = split.shared
                          ? images_of_split(*encoded_, split.folder, options)
                          : std::vector<bool>(static_cast<std::size_t>(encoded_->size()), true);
  images_.reserve(chosen.size());
  for (std::int64_t i = 0; i < encoded_->size(); ++i) {
    if (chosen[static_cast<std::size_t>(i)]) images_.push_back(i);
  }
}

void ImageFolder::thin_out(std::int64_t limit) {
  if (limit == 0 || limit >= size()) return;
  for (std::int64_t i = 0; i < limit; ++i) {
    images_[static_cast<std::size_t>(i)] = images_[static_cast<std::size_t>(i * size() / limit)];
  }
  images_.resize(static_cast<std::size_t>(limit));
}

void ImageFolder::skip_bad_images(const fs::path& folder,
                                  const std::shared_ptr<Communicator>& ranks, LeftOut& left_out) {
  const auto numbers = std::exchange(images_, {});
  CheckOptions together;
  together.ranks = ranks;
  const auto decode_one = [&](std::size_t i) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape().bytes()));
    return defect_of(numbers[i],
                     [&](const EncodedImage& file) { decode_to_crop(file, pixels.data()); });
  };
  const auto defects = find_defects(*encoded_, folder, numbers, decode_one, together);
  std::vector<std::int64_t> sound(static_cast<std::size_t>(classes()), 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (defects[i].empty()) {
      images_.push_back(numbers[i]);
      ++sound[static_cast<std::size_t>(encoded_->label(numbers[i]))];
    } else {
      TORCH_WARN(defects[i], "; the image is left out");
      left_out.add(LeftOut::Because::Undecodable, encoded_->path(numbers[i]));
      ++skipped_;
    }
  }
  for (const auto number : numbers) {
    const auto label = static_cast<std::size_t>(encoded_->label(number));
    TORCH_CHECK(sound[label] > 0, "adaact: ", (folder / class_names()[label]).string(),
                " is an empty class: none of its images can be decoded");
  }
  if (skipped_ > 0) TORCH_WARN(skipped_, " of ", numbers.size(), " images are left out");
  replaces_bad_images_ = true;
}

std::int64_t ImageFolder::number(std::int64_t index) const {
  check_index(index);
  return images_[static_cast<std::size_t>(index)];
}

std::int64_t ImageFolder::label(std::int64_t index) const { return encoded_->label(number(index)); }

fs::path ImageFolder::path(std::int64_t index) const { return encoded_->path(number(index)); }

const std::uint8_t* ImageFolder::pixels(std::int64_t index) const {
  check_index(index);
  return decoded_->find(static_cast<std::size_t>(index));
}

void ImageFolder::read(std::int64_t index, std::uint8_t* pixels) const {
  if (const auto* there = this->pixels(index); there != nullptr) {
    std::memcpy(pixels, there, static_cast<std::size_t>(shape().bytes()));
    return;
  }
  decode(index, [&](const EncodedImage& file) { decode_to_crop(file, pixels); });
  decoded_->keep(static_cast<std::size_t>(index), pixels);
}

void ImageFolder::read_part(std::int64_t index, const ChoosePart& choose,
                            std::uint8_t* pixels) const {
  decode(index, [&](const EncodedImage& file) {
    ImagePart part;
    const auto choose_box = [&](std::int64_t height, std::int64_t width) {
      part = choose(height, width);
      return part.box;
    };
    const auto image = decode_part(file, choose_box, shape().height);
    resize_image({image.pixels.data(), image.height, image.width, 3}, part.filter, part.mirrored,
                 shape().height, shape().width, pixels);
  });
}

std::vector<std::uint8_t> ImageFolder::encoded(std::int64_t index) const {
  return encoded_->read(number(index)).bytes;
}

void ImageFolder::decode_to_crop(const EncodedImage& file, std::uint8_t* pixels) const {
  resize_and_crop(decode_image(file, enough_to_resize(resize_size_)), resize_size_, shape().height,
                  pixels);
}

std::string ImageFolder::defect_of(std::int64_t number, const Decode& decode) const {
  return defect_in(encoded_->path(number), [&] { decode(encoded_->read(number)); });
}

void ImageFolder::decode(std::int64_t index, const Decode& decode) const {
  const auto defect = defect_of(number(index), decode);
  if (defect.empty()) return;
  TORCH_CHECK(replaces_bad_images_, defect, "; --skip-bad-images leaves such files out");
  for (auto other = next_of_class(index); other != index; other = next_of_class(other)) {
    if (!defect_of(number(other), decode).empty()) continue;
    TORCH_WARN(defect, "; ", path(other).string(), " takes its place");
    return;
  }
  TORCH_CHECK(false, defect, "; nor can any other image of its class");
}

std::int64_t ImageFolder::next_of_class(std::int64_t index) const {
  const auto wanted = label(index);
  do {
    index = (index + 1) % size();
  } while (label(index) != wanted);
  return index;
}

}  // namespace adaact
