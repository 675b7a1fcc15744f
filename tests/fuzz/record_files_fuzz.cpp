// IDX and CIFAR files, gzip or plain, of images so small that most of a file is its structure.

#include <adaact/data/record_datasets.h>

#include "data/record_files.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/gzip_mutator.h"
#include "fuzz/input_folder.h"

namespace adaact::fuzz {
namespace {

/// Deflate packs a run of 258 bytes in 2 bits.
constexpr MemoryAllowance kOfPackedFiles{std::size_t{4} << 20, 2 * 1032};

std::string text_of(const testing::Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

DatasetInfo small_mnist() { return {"mnist", {1, 2, 2}, {"zero", "one", "two"}, {{.5F}, {.25F}}}; }

/// As read_mnist() expects them of small_mnist().
std::string small_images() {
  return text_of(testing::idx_header(2051, {2, 2, 2})) + std::string("\0\1\2\3\4\5\6\7", 8);
}
std::string small_labels() { return text_of(testing::idx_labels({2, 0})); }

void read_idx(const std::string& images, const std::string& labels) {
  static const InputFolder folder;
  folder.write("t10k-images-idx3-ubyte", images);
  folder.write("t10k-labels-idx1-ubyte", labels);
  const auto data = read_mnist(folder.path(), Split::Test, 0, small_mnist());
  require(data->label(data->size() - 1) < data->classes(), "a label of no class");
}

void read_idx_images(const std::string& bytes) { read_idx(bytes, small_labels()); }
void read_idx_labels(const std::string& bytes) { read_idx(small_images(), bytes); }

std::vector<Seed> idx_images_seeds() {
  return {{"plain", small_images()}, {"gzip", gzipped(small_images())}};
}
std::vector<Seed> idx_labels_seeds() {
  return {{"plain", small_labels()}, {"gzip", gzipped(small_labels())}};
}

/// A record is a label, or two, and the three planes of a pixel.
void read_cifar_of_kind(CifarKind kind, const std::string& records, const std::string& names) {
  static const InputFolder folder;
  const bool ten = kind == CifarKind::Cifar10;
  folder.write(ten ? "test_batch.bin" : "test.bin", records);
  folder.write(ten ? "batches.meta.txt" : "fine_label_names.txt", names);
  const auto data = read_cifar(folder.path(), kind, Split::Test, 0,
                               {"cifar", {3, 1, 1}, {}, {{.5F, .5F, .5F}, {.2F, .2F, .2F}}});
  require(data->label(data->size() - 1) < data->classes(), "a label of no class");
}

std::string numbered_names(int count) {
  std::string names;
  for (int i = 0; i < count; ++i) names += "class " + std::to_string(i) + "\n";
  return names;
}

/// CIFAR-10 where the first byte is even, else CIFAR-100: the files do not say what they are.
void read_cifar_records(const std::string& bytes) {
  if (bytes.empty()) return;
  const bool ten = bytes.front() % 2 == 0;
  read_cifar_of_kind(ten ? CifarKind::Cifar10 : CifarKind::Cifar100, bytes.substr(1),
                     numbered_names(ten ? 10 : 100));
}

std::vector<Seed> cifar_seeds() {
  const std::string ten("\1ABC\2DEF", 8);
  const std::string hundred("\1\143ABC\2\0DEF", 10);
  return {{"ten", std::string(1, '\0') + ten}, {"hundred", "\1" + hundred}};
}

void read_class_names(const std::string& bytes) {
  read_cifar_of_kind(CifarKind::Cifar10, std::string("\1ABC", 4), bytes);
}

std::vector<Seed> class_names_seeds() {
  return {{"ten", numbered_names(10)}, {"of_windows", "a\r\nb\r\nc\t\r\nd\ne\nf\ng\nh\ni\nj"}};
}

}  // namespace

FuzzTarget idx_images_target() {
  return {"idx_images", read_idx_images, idx_images_seeds, mutate_maybe_gzip, kOfPackedFiles};
}
FuzzTarget idx_labels_target() {
  return {"idx_labels", read_idx_labels, idx_labels_seeds, mutate_maybe_gzip, kOfPackedFiles};
}
FuzzTarget cifar_target() {
  return {"cifar", read_cifar_records, cifar_seeds, nullptr, kOfPackedFiles};
}
FuzzTarget class_names_target() { return {"class_names", read_class_names, class_names_seeds}; }

}  // namespace adaact::fuzz
