#include <string>
#include <utility>
#include <vector>

#include <adaact/data/record_datasets.h>
#include <c10/util/Exception.h>

#include "data/data_source.h"
#include "data/record_file.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

// An IDX file starts with 0, 0, the type of its elements (8: bytes) and the number of dimensions.
constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;

fs::path find_file(const fs::path& folder, const std::string& name, const std::string& dataset) {
  TORCH_CHECK(fs::is_directory(folder), "adaact: there is no folder ", folder.string());
  for (const auto& candidate : {folder / (name + ".gz"), folder / name}) {
    if (fs::exists(candidate)) return candidate;
  }
  TORCH_CHECK(false, "adaact: there is neither ", name, ".gz nor ", name, " in ", folder.string(),
              "; ", how_to_get(dataset));
}

std::int64_t read_header(RecordFile& file, std::uint32_t magic,
                         const std::vector<std::int64_t>& item_shape) {
  const auto found = file.read_uint32("the header");
  TORCH_CHECK(found == magic, "adaact: ", file.path().string(), " has the magic number ", found,
              " at byte 0, expected ", magic);
  const std::int64_t items = file.read_uint32("the header");
  auto bytes = items;
  for (const auto size : item_shape) {
    const auto offset = file.offset();
    const std::int64_t given = file.read_uint32("the header");
    TORCH_CHECK(given == size, "adaact: ", file.path().string(), " has images of side ", given,
                " at byte ", offset, ", expected ", size);
    bytes *= size;
  }
  file.expect_room_for(bytes);
  return items;
}

torch::Tensor read_images(RecordFile& file, std::int64_t items, const ImageShape& shape) {
  auto images = torch::empty({items, 1, shape.height, shape.width}, torch::kByte);
  file.read(images.data_ptr<std::uint8_t>(), images.numel(), "the images");
  file.expect_end();
  return images;
}

torch::Tensor read_labels(RecordFile& file, std::int64_t items, std::int64_t classes) {
  const auto begin = file.offset();
  auto bytes = torch::empty({items}, torch::kByte);
  file.read(bytes.data_ptr<std::uint8_t>(), items, "the labels");
  file.expect_end();
  const auto* label = bytes.data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < items; ++i) {
    TORCH_CHECK(label[i] < classes, "adaact: ", file.path().string(), " has label ", int{label[i]},
                " for image ", i, " at byte ", begin + i, ", expected 0 to ", classes - 1);
  }
  return bytes.to(torch::kLong);
}

}  // namespace

std::shared_ptr<ImageTensorDataset> read_mnist(const fs::path& folder, Split split,
                                               std::int64_t limit, DatasetInfo info) {
  const std::string part = split == Split::Train ? "train" : "t10k";
  const auto images_path = find_file(folder, part + "-images-idx3-ubyte", info.name);
  const auto labels_path = find_file(folder, part + "-labels-idx1-ubyte", info.name);
  RecordFile label_file(labels_path);
  RecordFile image_file(images_path);
  const auto size = read_header(image_file, kImagesMagic, {info.shape.height, info.shape.width});
  // Before labels are read: packed, a small file may hold billions.
  const auto label_count = read_header(label_file, kLabelsMagic, {});
  TORCH_CHECK(label_count == size, "adaact: ", labels_path.string(), " has ", label_count,
              " labels, but ", images_path.string(), " has ", size, " images");
  TORCH_CHECK(size > 0, "adaact: ", images_path.string(), " has no images");
  auto labels = read_labels(label_file, size, static_cast<std::int64_t>(info.class_names.size()));
  auto images = read_images(image_file, size, info.shape);
  if (limit > 0 && limit < size) {
    // A copy, so that the memory of the images beyond the limit is returned.
    images = images.narrow(0, 0, limit).clone();
    labels = labels.narrow(0, 0, limit).clone();
  }
  return std::make_shared<ImageTensorDataset>(std::move(info), images, labels);
}

}  // namespace adaact
