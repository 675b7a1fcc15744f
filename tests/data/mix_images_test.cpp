#include "data/mix_images.h"

#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace {

using adaact::draw_mix;
using adaact::ImageShape;
using adaact::mix_pair;
using adaact::MixDraw;
using adaact::MixOptions;

using Pixels = std::vector<std::uint8_t>;

Pixels varied_bytes(std::size_t count, std::uint32_t state) {
  Pixels bytes;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    bytes.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  return bytes;
}

TEST(MixImages, SharesAreOfTheBetaDistribution) {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.1, 0.8, 1.0, 5.0}) {
    double sum = 0;
    double squares = 0;
    for (std::uint32_t batch = 0; batch < kDraws; ++batch) {
      const auto draw = draw_mix({alpha, 0.0}, 1, 2, batch, 224, 224);
      ASSERT_FALSE(draw.cut);
      ASSERT_GE(draw.own_share, 0.0);
      ASSERT_LE(draw.own_share, 1.0);
      sum += draw.own_share;
      squares += std::pow(draw.own_share - 0.5, 2);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 1.0 / (4.0 * (2.0 * alpha + 1.0)), 0.004) << alpha;
  }
}

TEST(MixImages, AnyAlphaGivesAShare) {
  for (const double alpha : {1e-9, 1e-3, 1e4, 1e12}) {
    for (std::uint32_t batch = 0; batch < 100; ++batch) {
      const auto share = draw_mix({alpha, 0.0}, 1, 2, batch, 4, 4).own_share;
      EXPECT_TRUE(share >= 0.0 && share <= 1.0) << alpha << ' ' << share;
    }
  }
}

TEST(MixImages, WhereBothAreOnABatchGetsOneOfThem) {
  int cuts = 0;
  for (std::uint32_t batch = 0; batch < 2000; ++batch) {
    const auto draw = draw_mix({0.8, 1.0}, 1, 2, batch, 8, 8);
    cuts += draw.cut ? 1 : 0;
    const MixOptions only{draw.cut ? 0.0 : 0.8, draw.cut ? 1.0 : 0.0};
    EXPECT_EQ(draw_mix(only, 1, 2, batch, 8, 8).own_share, draw.own_share);
  }
  EXPECT_NEAR(cuts, 1000, 90);
}

TEST(MixImages, ACutHasTheShareOfItsArea) {
  for (std::uint32_t batch = 0; batch < 500; ++batch) {
    const auto draw = draw_mix({0.0, 1.0}, 1, 2, batch, 30, 41);
    ASSERT_TRUE(draw.cut);
    EXPECT_GE(draw.box.top, 0);
    EXPECT_GE(draw.box.left, 0);
    EXPECT_GE(draw.box.height, 0);
    EXPECT_LE(draw.box.top + draw.box.height, 30);
    EXPECT_LE(draw.box.left + draw.box.width, 41);
    EXPECT_EQ(draw.own_share,
              1.0 - static_cast<double>(draw.box.height * draw.box.width) / (30.0 * 41.0));
  }
}

TEST(MixImages, WithoutOptionsNothingIsMixed) {
  EXPECT_EQ(draw_mix({}, 1, 2, 3, 8, 8).own_share, 1.0);
}

TEST(MixImages, MixupIsARoundedMean) {
  const ImageShape shape{3, 7, 5};
  const auto one = varied_bytes(105, 1);
  const auto other = varied_bytes(105, 2);
  for (const double share : {0.0, 0.25, 0.5, 0.7, 1.0}) {
    auto a = one;
    auto b = other;
    mix_pair({false, {}, share}, shape, a.data(), b.data());
    for (std::size_t i = 0; i < one.size(); ++i) {
      const auto own = static_cast<float>(share);
      const auto rest = static_cast<float>(1.0 - share);
      EXPECT_EQ(a[i], std::nearbyint(own * one[i] + rest * other[i]));
      EXPECT_EQ(b[i], std::nearbyint(own * other[i] + rest * one[i]));
    }
  }
}

TEST(MixImages, CutmixExchangesARectangle) {
  const ImageShape shape{3, 7, 5};
  const auto one = varied_bytes(105, 1);
  const auto other = varied_bytes(105, 2);
  auto a = one;
  auto b = other;
  mix_pair({true, {2, 1, 4, 3}, 0.5}, shape, a.data(), b.data());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto x = i % 5;
    const auto y = i / 5 % 7;
    const bool cut = y >= 2 && y < 6 && x >= 1 && x < 4;
    EXPECT_EQ(a[i], cut ? other[i] : one[i]);
    EXPECT_EQ(b[i], cut ? one[i] : other[i]);
  }
}

TEST(MixImages, SlotsArePairsFromBothEnds) {
  for (const std::int64_t batch : {1, 2, 7, 8}) {
    std::set<std::int64_t> positions;
    for (std::int64_t slot = 0; slot < batch; ++slot) {
      positions.insert(adaact::position_of_slot(slot, batch));
    }
    EXPECT_EQ(static_cast<std::int64_t>(positions.size()), batch);
    EXPECT_EQ(*positions.begin(), 0);
    EXPECT_EQ(*positions.rbegin(), batch - 1);
    for (std::int64_t slot = 0; slot + 1 < batch; slot += 2) {
      EXPECT_EQ(adaact::position_of_slot(slot, batch) + adaact::position_of_slot(slot + 1, batch),
                batch - 1);
    }
  }
}

}  // namespace
