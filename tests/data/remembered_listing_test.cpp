#include "data/remembered_listing.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "data/record_files.h"
#include "data/user_cache.h"
#include "support/errors.h"
#include "support/own_cache.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using namespace adaact::testing;
using adaact::FolderListing;
using adaact::list_folder;
using adaact::recall_listing;
namespace fs = std::filesystem;

class RememberedListing : public ::testing::Test {
 protected:
  RememberedListing() {
    for (const auto* file : {"ant/1.jpg", "ant/deep/er/2.PNG", "bee/3.webp", "bee/notes.txt"}) {
      write_text(root() / file, "");
    }
  }

  fs::path root() const { return folder_.path() / "images"; }
  fs::path file() const { return folder_.path() / "cache" / "kept"; }
  void remember() const {
    adaact::remember_listing(list_folder(root(), root()), file(), root(), /*unsettled=*/0);
  }
  bool recalls() const { return recall_listing(file(), root(), root()).has_value(); }

  /// Returns when a change gets a later time than all that is there has: the clock of a file system may stand still for
  /// milliseconds.
  void wait_for_a_later_time() const {
    std::int64_t latest = 0;
    for (const auto& each : list_folder(root(), root()).folders) {
      latest = std::max(latest, each.changed);
    }
    const auto probe = folder_.path() / "probe";
    do {
      fs::remove_all(probe);
      fs::create_directory(probe);
    } while (adaact::look_at_folder(probe).changed <= latest);
  }

  TemporaryFolder folder_;
};

TEST_F(RememberedListing, IsTheListing) {
  const auto listing = list_folder(root(), root());
  remember();
  const auto recalled = recall_listing(file(), root(), root());
  ASSERT_TRUE(recalled.has_value());
  EXPECT_EQ(recalled->classes, listing.classes);
  EXPECT_EQ(recalled->images.strings(),
            (std::vector<std::string>{"1.jpg", "deep/er/2.PNG", "3.webp"}));
  EXPECT_EQ(recalled->ends, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(recalled->label(1), 0);
  EXPECT_EQ(recalled->label(2), 1);
  EXPECT_EQ(recalled->left_out.text(""), listing.left_out.text(""));
}

TEST_F(RememberedListing, IsForgottenWhenANameComesGoesOrChanges) {
  const std::vector<std::function<void()>> changes{
      [&] { write_text(root() / "ant" / "deep" / "er" / "4.jpg", ""); },
      [&] { fs::remove(root() / "ant" / "1.jpg"); },
      [&] { fs::rename(root() / "bee" / "3.webp", root() / "bee" / "5.webp"); },
      [&] { write_text(root() / "cat" / "6.jpg", ""); },
      [&] { fs::rename(root() / "cat", root() / "dog"); },
      [&] { fs::remove_all(root() / "dog"); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    remember();
    EXPECT_TRUE(recalls()) << i;
    wait_for_a_later_time();
    changes[i]();
    EXPECT_FALSE(recalls()) << i;
  }
}

TEST_F(RememberedListing, IsForgottenWhenAFolderIsGoneToWhichALinkLeads) {
  const auto elsewhere = folder_.path() / "elsewhere";
  write_text(elsewhere / "7.jpg", "");
  fs::create_directory_symlink(elsewhere, root() / "cow");
  remember();
  EXPECT_TRUE(recalls());
  fs::remove_all(elsewhere);
  EXPECT_FALSE(recalls());
}

TEST_F(RememberedListing, IsOfOneFolder) {
  remember();
  EXPECT_FALSE(recall_listing(file(), root(), folder_.path()).has_value());
  const auto copy = folder_.path() / "copy";
  fs::copy(root(), copy, fs::copy_options::recursive);
  EXPECT_FALSE(recall_listing(file(), copy, copy).has_value());
}

TEST_F(RememberedListing, OfAFolderThatHasChangedJustNowNothingIsKept) {
  constexpr std::int64_t kHour = 3'600'000'000'000;
  adaact::remember_listing(list_folder(root(), root()), file(), root(), kHour);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(RememberedListing, ADamagedOneIsListedAnew) {
  const OwnCache cache(folder_.path() / "cache");
  const auto kept = adaact::cached_file(root(), ".listing.safetensors");
  auto listing = list_folder(root(), root());
  listing.images.add("6.jpg");  // by which it is told whether what is kept was used
  listing.ends.back() = 4;
  adaact::remember_listing(listing, kept, root(), /*unsettled=*/0);
  EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 4);
  const auto whole = bytes_of(kept);
  for (const auto at : {std::size_t{3}, whole.size() / 2, whole.size() - 1}) {
    auto bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] + 1);
    write_text(kept, bytes);
    EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 3) << at;
  }
  write_text(kept, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 3);
  fs::remove(kept);
  fs::create_directory(kept);
  EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 3);
}

TEST_F(RememberedListing, OneWithAValidChecksumAndNonsenseInsideIsRefused) {
  const auto error = [&](const std::function<void(FolderListing&)>& change) {
    auto listing = list_folder(root(), root());
    change(listing);
    adaact::remember_listing(listing, file(), root(), /*unsettled=*/0);
    return error_of([&] { recalls(); });
  };
  EXPECT_TRUE(contains(error([](auto& listing) { listing.ends = {2, 4}; }), "do not end where"));
  EXPECT_TRUE(contains(error([](auto& listing) { listing.ends = {4, 3}; }), "do not end where"));
  EXPECT_TRUE(contains(error([](auto& listing) { listing.ends = {3}; }), "do not end where"));
}

TEST_F(RememberedListing, AFewFilesAreNotWorthIt) {
  const OwnCache cache(folder_.path() / "cache");
  EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 3);
  EXPECT_FALSE(fs::exists(folder_.path() / "cache"));
}

TEST_F(RememberedListing, WithoutAPlaceToKeepItTheFolderIsListed) {
  const OwnCache cache("/dev/null/nowhere");
  EXPECT_EQ(adaact::remembered_listing(root(), root()).images.size(), 3);
}

TEST(UserCache, IsWhereXdgHasIt) {
  {
    const OwnCache cache("/somewhere");
    EXPECT_EQ(adaact::user_cache(), "/somewhere/adaact");
  }
  const OwnCache unset("");
  const auto* home = std::getenv("HOME");
  EXPECT_EQ(adaact::user_cache(),
            home == nullptr ? fs::path() : fs::path(home) / ".cache" / "adaact");
}

}  // namespace
