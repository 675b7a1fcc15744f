#include "data/decoded_images.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::DecodedImages;
using Pixels = std::vector<std::uint8_t>;

TEST(DecodedImages, WhatIsKeptIsFoundAndNothingElse) {
  DecodedImages images(3, 4);
  EXPECT_EQ(images.find(1), nullptr);
  const Pixels pixels{1, 2, 3, 4};
  images.keep(1, pixels.data());
  ASSERT_NE(images.find(1), nullptr);
  EXPECT_EQ(Pixels(images.find(1), images.find(1) + 4), pixels);
  EXPECT_EQ(images.find(0), nullptr);
  EXPECT_EQ(images.find(2), nullptr);
}

TEST(DecodedImages, NoneAreKeptWhereNotAllFit) {
  DecodedImages images(3, 4, /*most_bytes=*/11);
  const Pixels pixels{1, 2, 3, 4};
  images.keep(0, pixels.data());
  EXPECT_EQ(images.find(0), nullptr);
  DecodedImages enough(3, 4, /*most_bytes=*/12);
  enough.keep(0, pixels.data());
  EXPECT_NE(enough.find(0), nullptr);
}

TEST(DecodedImages, ThreadsMayKeepTheSameImageAtOnce) {
  constexpr std::size_t kBytes = 1000;
  DecodedImages images(1, kBytes);
  const Pixels pixels(kBytes, 7);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int again = 0; again < 100; ++again) {
        images.keep(0, pixels.data());
        const auto* found = images.find(0);
        if (found != nullptr) {
          EXPECT_EQ(Pixels(found, found + kBytes), pixels);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_NE(images.find(0), nullptr);
}

}  // namespace
