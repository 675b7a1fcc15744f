#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <adaact/data/random_stream.h>
#include <adaact/data/shuffle.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace {

using adaact::PhiloxBlock;
using adaact::PhiloxKey;
using adaact::RandomPurpose;
using adaact::RandomStream;
using adaact::shuffled_order;
using adaact::testing::contains;
using adaact::testing::error_of;

void expect_words(const PhiloxBlock& block, const std::array<std::uint32_t, 4>& expected) {
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(block.words[i], expected[i]) << "word " << i;
}

TEST(Philox, GivesThePublishedAnswers) {
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  expect_words(adaact::philox4x32_10({{0, 0, 0, 0}}, {{0, 0}}),
               {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_words(adaact::philox4x32_10({{kOnes, kOnes, kOnes, kOnes}}, {{kOnes, kOnes}}),
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words(adaact::philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                                     {{0xa4093822, 0x299f31d0}}),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(RandomStream, NextWalksTheBlocks) {
  RandomStream stream(7, RandomPurpose::Augment, 3, 11);
  for (std::uint32_t draw = 0; draw < 5; ++draw) {
    const auto block = stream.block(draw);
    for (const auto word : block.words) EXPECT_EQ(stream.next(), word);
  }
}

TEST(RandomStream, EveryPartOfTheAddressMatters) {
  const std::vector<RandomStream> streams{
      {1, RandomPurpose::Augment, 0, 0}, {1ULL << 32, RandomPurpose::Augment, 0, 0},
      {1, RandomPurpose::Shuffle, 0, 0}, {1, RandomPurpose::DropPath, 0, 0},
      {1, RandomPurpose::Mix, 0, 0},     {1, RandomPurpose::Synthesize, 0, 0},
      {1, RandomPurpose::Augment, 1, 0}, {1, RandomPurpose::Augment, 0, 1}};
  std::set<std::uint32_t> words;
  for (const auto& stream : streams) {
    for (std::uint32_t draw = 0; draw < 8; ++draw) {
      const auto block = stream.block(draw);
      words.insert(std::begin(block.words), std::end(block.words));
    }
  }
  EXPECT_EQ(words.size(), streams.size() * 32);
}

TEST(RandomStream, BelowIsUniform) {
  constexpr std::uint32_t kBound = 9;
  constexpr int kDraws = 90000;
  std::array<int, kBound> counts{};
  RandomStream stream(5, RandomPurpose::Augment, 0, 0);
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(kBound));
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kDraws) / kBound;
  for (const auto count : counts) chi_square += std::pow(count - kExpected, 2) / kExpected;
  EXPECT_LT(chi_square, 26.1);  // exceeded by chance once in 1000 seeds
}

TEST(RandomStream, UniformFillsTheUnitIntervalWithoutItsEnd) {
  RandomStream stream(6, RandomPurpose::Mix, 0, 0);
  constexpr int kDraws = 100000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto value = stream.uniform();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 4 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_LT(static_cast<float>(0xFFFFFFFFU >> 8) * 0x1p-24F, 1.0F);
}

TEST(Shuffle, IsAPermutation) {
  for (const std::int64_t size : {0, 1, 7, 1000}) {
    auto order = shuffled_order(size, 3, 2);
    std::vector<std::int64_t> sorted(static_cast<std::size_t>(size));
    std::iota(sorted.begin(), sorted.end(), 0);
    EXPECT_EQ(order == sorted, size < 2);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, sorted);
  }
}

TEST(Shuffle, DependsOnSeedAndEpochAlone) {
  const auto order = shuffled_order(500, 3, 2);
  EXPECT_EQ(order, shuffled_order(500, 3, 2));
  EXPECT_NE(order, shuffled_order(500, 3, 3));
  EXPECT_NE(order, shuffled_order(500, 4, 2));
}

TEST(Shuffle, NeverChangesBetweenVersions) {
  EXPECT_EQ(shuffled_order(8, 0, 0), (std::vector<std::int64_t>{5, 2, 4, 0, 6, 7, 1, 3}));
  EXPECT_EQ(shuffled_order(8, 0x123456789, 3), (std::vector<std::int64_t>{3, 6, 5, 7, 2, 4, 0, 1}));
}

TEST(Shuffle, SendsEverySampleEverywhere) {
  constexpr int kSize = 6;
  constexpr int kEpochs = 6000;
  std::array<std::array<int, kSize>, kSize> counts{};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = shuffled_order(kSize, 9, epoch);
    for (std::size_t place = 0; place < kSize; ++place) {
      ++counts.at(place).at(static_cast<std::size_t>(order[place]));
    }
  }
  for (const auto& place : counts) {
    for (const auto count : place) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000 * 5.0 / 6));
  }
}

TEST(Shuffle, RefusesWhatItCannotAddress) {
  EXPECT_TRUE(contains(error_of([] { shuffled_order(-1, 0, 0); }), "size is -1"));
  EXPECT_TRUE(contains(error_of([] { shuffled_order(3, 0, -1); }), "epoch is -1"));
}

}  // namespace
