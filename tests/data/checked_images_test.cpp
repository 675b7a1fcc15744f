#include "data/checked_images.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "data/made_up_images.h"
#include "data/record_files.h"
#include "support/errors.h"
#include "support/own_cache.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace {

using namespace adaact::testing;
namespace fs = std::filesystem;

class CheckedImagesTest : public ::testing::Test {
 protected:
  /// How many images had to be decoded; those whose numbers end in 7 cannot be.
  std::int64_t decoded(const std::vector<std::int64_t>& numbers,
                       const fs::path& folder = "images") const {
    std::atomic<std::int64_t> count{0};
    const auto defects = find_defects(images_, folder, numbers, [&](std::size_t i) {
      ++count;
      return defect_of(numbers[i]);
    });
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(defects[i], defect_of(numbers[i]));
    return count;
  }
  static std::string defect_of(std::int64_t number) {
    return number % 10 == 7 ? "no picture " + std::to_string(number) : "";
  }

  static std::string defect_of_place(std::size_t /*place*/) { return ""; }

  TemporaryFolder folder_;
  const OwnCache cache_{folder_.path()};
  const fs::path before_ = enter(folder_.path());
  MadeUpImages images_;

  ~CheckedImagesTest() override { fs::current_path(before_); }

 private:
  /// A folder is known by its place.
  static fs::path enter(const fs::path& folder) {
    fs::create_directories(folder / "images");
    auto before = fs::current_path();
    fs::current_path(folder);
    return before;
  }
};

TEST_F(CheckedImagesTest, AreCheckedOnce) {
  EXPECT_EQ(decoded({5, 6, 7}), 3);
  EXPECT_EQ(decoded({5, 6, 7}), 0);
  EXPECT_EQ(decoded({4, 5, 17}), 2) << "and others when they are asked for";
  EXPECT_EQ(decoded({4, 5, 6, 7, 17}), 0);
}

TEST_F(CheckedImagesTest, AreTheSameByEveryNameOfTheFolder) {
  EXPECT_EQ(decoded({5, 6, 7}), 3);
  EXPECT_EQ(decoded({5, 6, 7}, "images/"), 0);
}

TEST_F(CheckedImagesTest, WhatNoImageHasAnyMoreIsForgottenWhereMoreIsKeptThanThereAreImages) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(images_.size()));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  EXPECT_EQ(decoded(all), images_.size());
  images_.changed = 6;
  EXPECT_EQ(decoded({6}), 1);
  EXPECT_EQ(decoded(all), 0);
  images_.changed = -1;
  EXPECT_EQ(decoded(all), 1) << "what it was before is another image by now";
}

TEST_F(CheckedImagesTest, AChangedFileIsCheckedAgain) {
  decoded({5, 6, 7});
  images_.changed = 6;
  EXPECT_EQ(decoded({5, 6, 7}), 1);
  images_.changed = 7;
  EXPECT_EQ(decoded({5, 6, 7}), 1);
}

TEST_F(CheckedImagesTest, WhatCannotBeReadIsNotRemembered) {
  images_.unreadable = 7;
  EXPECT_EQ(decoded({6, 7}), 2);
  images_.unreadable = -1;
  EXPECT_EQ(decoded({6, 7}), 1);
}

TEST_F(CheckedImagesTest, ADamagedMemoryIsNone) {
  decoded({5, 6, 7});
  for (const auto& file : fs::directory_iterator(folder_.path() / "adaact")) cut(file.path(), 0.7);
  EXPECT_EQ(decoded({5, 6, 7}), 3);
  EXPECT_EQ(decoded({5, 6, 7}), 0);
}

TEST_F(CheckedImagesTest, AFewAreNotWorthIt) {
  const MadeUpImages few(adaact::kLeastRemembered - 1);
  find_defects(few, "images", {1}, [](std::size_t /*i*/) { return std::string(); });
  EXPECT_FALSE(fs::exists(folder_.path() / "adaact"));
}

TEST_F(CheckedImagesTest, ProgressIsToldToTheCallerWhoMayEndTheCheck) {
  const auto caller = std::this_thread::get_id();
  std::atomic<int> told{0};
  const auto defect_of = [&](std::size_t /*i*/) {
    // Or the other threads might leave nothing for this one to be told of.
    while (told < 2 && std::this_thread::get_id() != caller) std::this_thread::yield();
    return std::string();
  };
  adaact::CheckOptions options;
  options.progress = [&](std::size_t /*place*/) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    if (++told == 2) throw std::runtime_error("enough");
  };
  EXPECT_EQ(error_of([&] {
              find_defects(images_, "images", std::vector<std::int64_t>(10'000, 1), defect_of,
                           options);
            }),
            "enough");
}

TEST_F(CheckedImagesTest, OfSeveralRanksEachChecksAPart) {
  const std::vector<std::int64_t> numbers{3, 7, 8, 17, 20, 27, 30};
  for (const int expected : {7, 0}) {  // the second time all of them remember what all have found
    std::atomic<int> decoded{0};
    on_ranks(3, [&](const auto& rank) {
      adaact::CheckOptions options;
      options.ranks = rank;
      const auto check = [&](std::size_t i) {
        ++decoded;
        return defect_of(numbers[i]);
      };
      const auto defects = find_defects(images_, "images", numbers, check, options);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        EXPECT_EQ(defects[i], defect_of(numbers[i])) << "rank " << rank->rank();
      }
    });
    EXPECT_EQ(decoded, expected);
  }
}

TEST_F(CheckedImagesTest, RanksMeetWhileOneStillChecks) {
  const std::vector<std::int64_t> numbers(100, 3);
  on_ranks(2, [&](const auto& rank) {
    adaact::CheckOptions options;
    options.ranks = rank;
    options.between_meetings = std::chrono::seconds(0);
    find_defects(images_, "images", numbers, defect_of_place, options);
    EXPECT_GE(rank->sums(), 50 / std::max(1U, std::thread::hardware_concurrency()));
  });
}

TEST_F(CheckedImagesTest, RanksHaveTheSameImages) {
  const auto error = error_of([&] {
    on_ranks(2, [&](const auto& rank) {
      adaact::CheckOptions options;
      options.ranks = rank;
      find_defects(images_, "images", {1, 2, 3 + rank->rank()}, defect_of_place, options);
    });
  });
  EXPECT_TRUE(contains(error, "rank 1 differs in its images: it has 3 files whose names have"));
}

TEST(Defects, AreFaultsOfTheImageAlone) {
  const auto defect = [](const std::function<void()>& decode) {
    return adaact::defect_in("a.jpg", decode);
  };
  EXPECT_EQ(defect([] {}), "");
  EXPECT_EQ(defect([] { TORCH_CHECK(false, "adaact: a.jpg is empty"); }), "adaact: a.jpg is empty");
  EXPECT_EQ(defect([] { throw std::length_error("too long"); }), "adaact: a.jpg: too long");
  EXPECT_THROW(defect([] {
                 throw adaact::ShardError({"", "", 0}, "truncated");
               }),
               adaact::ShardError);
  EXPECT_TRUE(contains(error_of([&] { defect([] { throw std::bad_alloc(); }); }),
                       "a.jpg: there is not enough memory to decode it"));
}

TEST_F(CheckedImagesTest, WhatIsWrongWithAShardEndsTheCheck) {
  EXPECT_EQ(error_of([&] {
              find_defects(images_, "images", {1, 2, 3}, [](std::size_t i) -> std::string {
                if (i == 1) throw std::runtime_error("the shard is truncated");
                return "";
              });
            }),
            "the shard is truncated");
}

}  // namespace
