#include "data/image_listing.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <c10/util/Exception.h>

#include "data/file_times.h"
#include "io/utf8.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

/// Folders that have been seen, by whatever path.
class SeenFolders {
 public:
  /// False if it was seen before.
  bool add(const struct stat& status) { return seen_.emplace(status.st_dev, status.st_ino).second; }

 private:
  std::set<std::pair<dev_t, ino_t>> seen_;
};

struct stat status_of_folder(const fs::path& folder) {
  struct stat status {};
  TORCH_CHECK(::stat(folder.c_str(), &status) == 0, "adaact: the folder ", folder.string(),
              " cannot be read: ", std::generic_category().message(errno));
  return status;
}

ListedFolder listed(const fs::path& folder, const struct stat& status) {
  return {folder, static_cast<std::int64_t>(status.st_ino), nanoseconds(status.st_ctim)};
}

/// As paths are sorted, name by name: what lies in a folder comes before its longer namesakes.
bool path_before(const std::string& a, const std::string& b) {
  const auto rank = [](char letter) {
    return letter == '/' ? 0 : static_cast<int>(static_cast<unsigned char>(letter));
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return rank(x) < rank(y); });
}

class Lister {
 public:
  Lister(const fs::path& folder, const fs::path& root) : folder_(folder), root_(root) {}

  FolderListing list() {
    listing_.folders.push_back(look_at_folder(folder_));
    for (const auto& entry : visible_entries(folder_)) {
      if (entry.is_folder) {
        TORCH_CHECK(is_utf8(entry.name), "adaact: the name of ", (folder_ / entry.name).string(),
                    " is not UTF-8, as the name of a class must be");
        listing_.classes.push_back(entry.name);
      } else if (has_image_name(entry.name) && entry.is_file) {
        listing_.left_out.add(LeftOut::Because::InNoClass, entry.name);
      } else {
        leave_out(entry);
      }
    }
    for (const auto& name : listing_.classes) add_class(folder_ / name);
    return std::move(listing_);
  }

 private:
  void leave_out(const FolderEntry& entry) {
    const bool named = has_image_name(entry.name);
    listing_.left_out.add(named ? LeftOut::Because::NotAFile : LeftOut::Because::OfItsName,
                          entry.name);
  }

  void add_class(const fs::path& of_class) {
    const auto others = listing_.left_out.count();
    auto images = images_below(of_class);
    const auto others_here = listing_.left_out.count() - others;
    TORCH_CHECK(!images.empty(), "adaact: ", of_class.string(),
                " is an empty class: it has no file that ends in ", kImageNames,
                others_here == 0 ? "" : ", and " + std::to_string(others_here) + " other");
    std::sort(images.begin(), images.end(), path_before);
    for (const auto& image : images) listing_.images.add(image);
    listing_.ends.push_back(listing_.images.size());
  }

  std::vector<std::string> images_below(const fs::path& of_class) {
    SeenFolders seen;
    for (const auto& other : {root_, folder_}) seen.add(status_of_folder(other));
    std::vector<std::string> images;
    std::vector<std::string> to_visit{""};  // each ends in '/', but for the class itself
    while (!to_visit.empty()) {
      const auto below = std::move(to_visit.back());
      to_visit.pop_back();
      const auto here = of_class / below;
      const auto status = status_of_folder(here);
      if (!seen.add(status)) continue;
      listing_.folders.push_back(listed(here, status));
      for (const auto& entry : visible_entries(here)) {
        if (entry.is_folder) {
          to_visit.push_back(below + entry.name + "/");
        } else if (has_image_name(entry.name) && entry.is_file) {
          images.push_back(below + entry.name);
        } else {
          leave_out(entry);
        }
      }
    }
    return images;
  }

  const fs::path& folder_;
  const fs::path& root_;
  FolderListing listing_;
};

}  // namespace

bool has_image_name(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
}

std::vector<FolderEntry> visible_entries(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    auto name = at->path().filename().string();
    if (name.front() == '.') continue;
    std::error_code ignored;  // of a link to nowhere, or to itself
    const bool is_folder = at->is_directory(ignored);
    entries.push_back({std::move(name), is_folder, !is_folder && at->is_regular_file(ignored)});
  }
  TORCH_CHECK(!error, "adaact: the folder ", folder.string(), " cannot be read: ", error.message());
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

std::vector<std::string> subfolders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : visible_entries(folder)) {
    if (entry.is_folder) names.push_back(entry.name);
  }
  return names;
}

bool is_class_of_images(const fs::path& folder) {
  const auto entries = visible_entries(folder);
  return std::none_of(entries.begin(), entries.end(),
                      [](const FolderEntry& entry) { return entry.is_folder; }) &&
         std::any_of(entries.begin(), entries.end(),
                     [](const FolderEntry& entry) { return has_image_name(entry.name); });
}

ListedFolder look_at_folder(const fs::path& folder) {
  return listed(folder, status_of_folder(folder));
}

std::int64_t FolderListing::label(std::int64_t image) const {
  return std::upper_bound(ends.begin(), ends.end(), image) - ends.begin();
}

FolderListing list_folder(const fs::path& folder, const fs::path& root) {
  return Lister(folder, root).list();
}

}  // namespace adaact
