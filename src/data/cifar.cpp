#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <adaact/data/record_datasets.h>
#include <c10/util/Exception.h>

#include "data/data_source.h"
#include "data/record_file.h"
#include "io/file_descriptor.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// A record is its labels, one byte each, and the planes of an image.
struct Format {
  const char* folder_in_archive;
  std::vector<const char*> training_files;
  const char* test_file;
  const char* class_names_file;
  std::vector<std::int64_t> label_counts;  // the last label is the one to learn
};

const Format& format_of(CifarKind kind) {
  static const Format cifar10{"cifar-10-batches-bin",
                              {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                               "data_batch_4.bin", "data_batch_5.bin"},
                              "test_batch.bin",
                              "batches.meta.txt",
                              {10}};
  static const Format cifar100{
      "cifar-100-binary", {"train.bin"}, "test.bin", "fine_label_names.txt", {20, 100}};
  return kind == CifarKind::Cifar10 ? cifar10 : cifar100;
}

std::vector<std::string> read_class_names(const fs::path& path, std::int64_t classes) {
  std::vector<std::string> names;
  if (!fs::exists(path)) {
    for (std::int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
    return names;
  }
  std::istringstream file(read_file(path));
  for (std::string line; std::getline(file, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(line);
  }
  TORCH_CHECK(static_cast<std::int64_t>(names.size()) == classes, "adaact: ", path.string(),
              " has ", names.size(), " class names, expected ", classes);
  return names;
}

std::int64_t count_records(const fs::path& path, std::int64_t record_bytes,
                           const std::string& dataset) {
  TORCH_CHECK(fs::exists(path), "adaact: there is no file ", path.string(), "; ",
              how_to_get(dataset));
  open_regular_file(path);  // or an error that says what it is
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  const auto records = bytes / record_bytes;
  TORCH_CHECK(bytes > 0, "adaact: ", path.string(), " is empty");
  TORCH_CHECK(bytes % record_bytes == 0, "adaact: ", path.string(),
              " is truncated or has extra bytes: record ", records, " at byte ",
              records * record_bytes, " has ", bytes % record_bytes, " bytes, expected ",
              record_bytes);
  return records;
}

/// Where the records of one file after the other go.
struct Destination {
  std::uint8_t* pixels;
  std::int64_t* labels;
};

void read_records(RecordFile& file, const Format& format, std::int64_t image_bytes,
                  std::int64_t records, Destination& to) {
  for (std::int64_t record = 0; record < records; ++record) {
    for (const auto count : format.label_counts) {
      std::uint8_t label = 0;
      file.read(&label, 1, "a label");
      TORCH_CHECK(label < count, "adaact: ", file.path().string(), " has label ", int{label},
                  " in record ", record, " at byte ", file.offset() - 1, ", expected 0 to ",
                  count - 1);
      *to.labels = label;
    }
    file.read(to.pixels, image_bytes, "an image");
    to.pixels += image_bytes;
    ++to.labels;
  }
}

}  // namespace

std::shared_ptr<ImageTensorDataset> read_cifar(const fs::path& folder, CifarKind kind, Split split,
                                               std::int64_t limit, DatasetInfo info) {
  TORCH_CHECK(fs::is_directory(folder), "adaact: there is no folder ", folder.string());
  const auto& format = format_of(kind);
  const auto unpacked = folder / format.folder_in_archive;
  const auto& place = fs::is_directory(unpacked) ? unpacked : folder;
  const auto image_bytes = info.shape.bytes();
  const auto record_bytes = image_bytes + static_cast<std::int64_t>(format.label_counts.size());

  auto names = format.training_files;
  if (split == Split::Test) names = {format.test_file};
  struct Records {
    std::int64_t there;
    std::int64_t wanted;
  };
  std::vector<Records> files;
  std::int64_t size = 0;
  for (const auto* name : names) {
    const auto count = count_records(place / name, record_bytes, info.name);
    files.push_back({count, limit > 0 ? std::min(count, limit - size) : count});
    size += files.back().wanted;
  }

  const auto& shape = info.shape;
  auto images = torch::empty({size, shape.channels, shape.height, shape.width}, torch::kByte);
  auto labels = torch::empty({size}, torch::kLong);
  Destination to{images.data_ptr<std::uint8_t>(), labels.data_ptr<std::int64_t>()};
  for (std::size_t i = 0; i < names.size(); ++i) {
    RecordFile file(place / names[i]);
    read_records(file, format, image_bytes, files[i].wanted, to);
    // A gzip file under this name would have more in it than its size says.
    if (files[i].wanted == files[i].there) file.expect_end();
  }
  info.class_names = read_class_names(place / format.class_names_file, format.label_counts.back());
  return std::make_shared<ImageTensorDataset>(std::move(info), images, labels);
}

}  // namespace adaact
