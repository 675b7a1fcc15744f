#include "data/image_listing.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <c10/util/Exception.h>

#include "io/joined.h"
#include "io/printable.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesShown = 3;

/// What a folder holds, sorted, without what is hidden.
std::vector<fs::directory_entry> visible_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().front() != '.') entries.push_back(*at);
  }
  TORCH_CHECK(!error, "adaact: the folder ", folder.string(), " cannot be read: ", error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;  // of a link to nowhere, or to itself
  return entry.is_directory(ignored);
}

bool is_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_regular_file(ignored);
}

void leave_out(const fs::directory_entry& entry, LeftOut& left_out) {
  const bool named = has_image_name(entry.path());
  left_out.add(named ? LeftOut::Because::NotAFile : LeftOut::Because::OfItsName, entry.path());
}

/// Folders that have been seen, by whatever path.
class SeenFolders {
 public:
  /// False if it was seen before.
  bool add(const fs::path& folder) {
    struct stat status {};
    TORCH_CHECK(::stat(folder.c_str(), &status) == 0, "adaact: the folder ", folder.string(),
                " cannot be read: ", std::generic_category().message(errno));
    return seen_.emplace(status.st_dev, status.st_ino).second;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> seen_;
};

/// Whether a folder has images and no folders.
bool is_class_of_images(const fs::path& folder) {
  const auto entries = visible_entries(folder);
  return std::none_of(entries.begin(), entries.end(), is_folder) &&
         std::any_of(entries.begin(), entries.end(),
                     [](const auto& entry) { return has_image_name(entry.path()); });
}

}  // namespace

void LeftOut::add(Because reason, const fs::path& path) {
  auto& files = files_[static_cast<std::size_t>(reason)];
  ++files.count;
  if (files.first_names.size() < kNamesShown) {
    files.first_names.push_back(printable(path.filename().string()));
  }
}

std::int64_t LeftOut::count() const {
  std::int64_t sum = 0;
  for (const auto& files : files_) sum += files.count;
  return sum;
}

std::string LeftOut::text(const std::string& where) const {
  struct Words {
    std::string one;
    std::string several;
  };
  const std::array<Words, 4> reasons{
      Words{std::string("is not ") + kImageNames, std::string("are not ") + kImageNames},
      Words{"is no regular file", "are no regular files"},
      Words{"is in no class's folder", "are in no class's folder"},
      Words{"cannot be decoded", "cannot be decoded"}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const auto& [number, names] = files_[i];
    if (number == 0) continue;
    const bool more = number > static_cast<std::int64_t>(names.size());
    parts.push_back(std::to_string(number) + " " +
                    (number == 1 ? reasons[i].one : reasons[i].several) + " (" + joined(names) +
                    (more ? ", …)" : ")"));
  }
  return std::to_string(count()) + (count() == 1 ? " file" : " files") + where +
         " left out: " + joined(parts);
}

bool has_image_name(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
}

std::vector<std::string> subfolders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : visible_entries(folder)) {
    if (is_folder(entry)) names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<fs::path> images_below(const fs::path& folder, const std::vector<fs::path>& not_below,
                                   LeftOut& left_out) {
  SeenFolders seen;
  for (const auto& other : not_below) seen.add(other);
  std::vector<fs::path> images;
  std::vector<fs::path> to_visit{folder};
  while (!to_visit.empty()) {
    const auto here = std::move(to_visit.back());
    to_visit.pop_back();
    if (!seen.add(here)) continue;
    for (const auto& entry : visible_entries(here)) {
      if (is_folder(entry)) {
        to_visit.push_back(entry.path());
      } else if (has_image_name(entry.path()) && is_file(entry)) {
        images.push_back(entry.path());
      } else {
        leave_out(entry, left_out);
      }
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

void leave_out_files_of(const fs::path& folder, LeftOut& left_out) {
  for (const auto& entry : visible_entries(folder)) {
    if (is_folder(entry)) continue;
    if (has_image_name(entry.path()) && is_file(entry)) {
      left_out.add(LeftOut::Because::InNoClass, entry.path());
    } else {
      leave_out(entry, left_out);
    }
  }
}

ImageFolderParts find_parts(const fs::path& root) {
  TORCH_CHECK(fs::is_directory(root), "adaact: there is no folder ", root.string());
  const auto part = [&](const char* name) {
    const auto folder = root / name;
    return fs::is_directory(folder) && !is_class_of_images(folder) ? folder : fs::path();
  };
  ImageFolderParts parts;
  parts.train = part("train");
  parts.evaluation = part("val");
  const auto test = part("test");
  (parts.evaluation.empty() ? parts.evaluation : parts.unused_test) = test;
  parts.divided = !parts.train.empty() || !parts.evaluation.empty();
  if (!parts.divided) parts.train = root;
  return parts;
}

}  // namespace adaact
