#include "data/remembered_listing.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <system_error>
#include <utility>

#include <c10/util/Exception.h>

#include "data/file_times.h"
#include "data/user_cache.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

constexpr char kKindOfListing[] = "adaact.listing";
constexpr char kFormOfListing[] = "3";  // another one is listed anew

/// Which folder it is of: the root matters as well, because no link leads back to it.
std::vector<std::string> places(const fs::path& folder, const fs::path& root) {
  return {fs::canonical(folder).string(), fs::canonical(root).string()};
}

bool has_changed_within(std::int64_t time, const FolderListing& listing) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::any_of(listing.folders.begin(), listing.folders.end(),
                     [&](const auto& folder) { return folder.changed > nanoseconds(now) - time; });
}

/// Whether all folders are as they were.
bool is_current(const std::vector<ListedFolder>& folders) {
  return std::all_of(folders.begin(), folders.end(), [](const ListedFolder& then) {
    std::error_code ignored;
    if (!fs::exists(then.path, ignored)) return false;
    const auto now = look_at_folder(then.path);
    return now.number == then.number && now.changed == then.changed;
  });
}

std::vector<ListedFolder> take_folders(const TensorFile& file, const fs::path& folder) {
  const auto paths = NameList::taken_from(file, "folders");
  const auto numbers = take_numbers(file, "folders.numbers");
  const auto changed = take_numbers(file, "folders.changed");
  TORCH_CHECK(paths.size() > 0 && numbers.size() == static_cast<std::size_t>(paths.size()) &&
                  changed.size() == numbers.size(),
              "adaact: ", numbers.size(), " numbers of ", paths.size(), " folders");
  std::vector<ListedFolder> folders;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    folders.push_back({folder / paths[static_cast<std::int64_t>(i)], numbers[i], changed[i]});
  }
  return folders;
}

void check(const FolderListing& listing) {
  TORCH_CHECK(!listing.classes.empty() && listing.ends.size() == listing.classes.size() &&
                  listing.ends.back() == listing.images.size() && listing.ends.front() > 0 &&
                  std::adjacent_find(listing.ends.begin(), listing.ends.end(),
                                     std::greater_equal<>()) == listing.ends.end(),
              "adaact: the images of ", listing.classes.size(), " classes do not end where the ",
              listing.images.size(), " images do");
}

}  // namespace

void remember_listing(const FolderListing& listing, const fs::path& file, const fs::path& root,
                      std::int64_t unsettled) {
  if (has_changed_within(unsettled, listing)) return;
  const auto& folder = listing.folders.front().path;
  TensorFile kept;
  kept.metadata[kKindOfListing] = kFormOfListing;
  NameList::of(places(folder, root)).put_into(kept, "places");
  NameList::of(listing.classes).put_into(kept, "classes");
  listing.images.put_into(kept, "images");
  put_numbers(kept, "ends", listing.ends);
  listing.left_out.put_into(kept);
  NameList paths;
  std::vector<std::int64_t> numbers;
  std::vector<std::int64_t> changed;
  for (const auto& each : listing.folders) {
    paths.add(each.path.lexically_relative(folder).string());
    numbers.push_back(each.number);
    changed.push_back(each.changed);
  }
  paths.put_into(kept, "folders");
  put_numbers(kept, "folders.numbers", numbers);
  put_numbers(kept, "folders.changed", changed);
  fs::create_directories(file.parent_path());
  kept.write(file);
}

std::optional<FolderListing> recall_listing(const fs::path& file, const fs::path& folder,
                                            const fs::path& root) {
  const auto kept = TensorFile::read(file, TensorFile::Checksum::Required);
  const auto form = kept.metadata.find(kKindOfListing);
  if (form == kept.metadata.end() || form->second != kFormOfListing) return std::nullopt;
  if (NameList::taken_from(kept, "places").strings() != places(folder, root)) return std::nullopt;
  FolderListing listing;
  listing.folders = take_folders(kept, folder);
  if (!is_current(listing.folders)) return std::nullopt;
  listing.classes = NameList::taken_from(kept, "classes").strings();
  listing.images = NameList::taken_from(kept, "images");
  listing.ends = take_numbers(kept, "ends");
  listing.left_out = LeftOut::taken_from(kept);
  check(listing);
  return listing;
}

FolderListing remembered_listing(const fs::path& folder, const fs::path& root) {
  const auto file = cached_file(folder, ".listing.safetensors");
  std::error_code ignored;
  if (!file.empty() && fs::exists(file, ignored)) {
    try {
      if (auto listing = recall_listing(file, folder, root)) return std::move(*listing);
    } catch (const std::exception&) {
      // Whatever is wrong with what was kept: the folder itself says what is in it.
    }
  }
  auto listing = list_folder(folder, root);
  if (!file.empty() && listing.images.size() >= kLeastRemembered) {
    try {
      remember_listing(listing, file, root);
    } catch (const std::exception&) {
      // No room, or no right to write: the next start lists again.
    }
  }
  return listing;
}

}  // namespace adaact
