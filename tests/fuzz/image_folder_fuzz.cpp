// The names in a folder of images: those of strangers need not be text.

#include <sstream>

#include <adaact/data/image_folder.h>

#include "data/image_files.h"
#include "fuzz/fuzz_targets.h"
#include "fuzz/input_folder.h"

namespace adaact::fuzz {
namespace {

namespace fs = std::filesystem;

const std::string& tiny_png() {
  static const auto bytes = [] {
    const InputFolder folder;
    testing::write_png(folder.path() / "tiny.png", testing::varied_image(2, 2, 3));
    return bytes_of_file(folder.path() / "tiny.png");
  }();
  return bytes;
}

/// Every line of the input is a path in the folder, of three names at most: a file with a picture in it, or
/// a folder where the line ends in '/'.
void make_entries(const fs::path& root, const std::string& lines) {
  constexpr int kMostEntries = 16;
  constexpr std::ptrdiff_t kMostNames = 3;
  std::istringstream in(lines);
  std::string line;
  for (int count = 0; count < kMostEntries && std::getline(in, line); ++count) {
    const auto relative = fs::path(line.substr(0, line.find('\0'))).lexically_normal();
    const bool inside = !relative.empty() && relative.is_relative() && *relative.begin() != ".." &&
                        *relative.begin() != ".";
    if (!inside || std::distance(relative.begin(), relative.end()) > kMostNames) continue;
    std::error_code ignored;  // of names that are too long, or taken by a file
    const auto path = root / relative;
    fs::create_directories(path.has_filename() ? path.parent_path() : path, ignored);
    if (path.has_filename()) std::ofstream(path, std::ios::binary) << tiny_png();
  }
}

void read_image_folder(const std::string& bytes) {
  const InputFolder folder;
  make_entries(folder.path(), bytes);
  ImageFolderOptions options;
  options.root = folder.path();
  options.image_size = 2;
  // A folder that has nothing to evaluate on is divided.
  std::error_code ignored;
  const bool divided =
      fs::exists(folder.path() / "val", ignored) || fs::exists(folder.path() / "test", ignored);
  options.validation = divided ? 0.0 : 0.5;
  for (const auto split : {Split::Train, Split::Test}) {
    options.split = split;
    const ImageFolder images(options);
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(images.shape().bytes()));
    for (std::int64_t i = 0; i < images.size(); ++i) {
      require(images.label(i) < images.classes(), "a label of no class");
      images.read(i, pixels.data());
    }
  }
}

std::vector<Seed> image_folder_seeds() {
  return {{"two_classes",
           "train/cat/1.png\ntrain/cat/.hidden.png\ntrain/dog/2.JPG\ntrain/dog/note.txt\n"
           "val/dog/3.jpeg\nval/cat/4.png\ntrain/.hidden/\n"},
          {"one_class", "train/cat/1.png\ntrain/cat/folder/\nval/cat/1.png\nval/.git/\n"},
          {"to_divide", "cat/a/1.webp\ncat/2.png\nstray.png\ndog/3.png\ndog/4.PNG\ndog/b/5.gif\n"},
          {"test", "train/cat/1.png\ntest/cat/2.png\n"}};
}

}  // namespace

FuzzTarget image_folder_target() { return {"image_folder", read_image_folder, image_folder_seeds}; }

}  // namespace adaact::fuzz
