#include <adaact/moments/moments.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/layer_cases.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Geometry;

torch::Tensor explicit_covariance(const torch::Tensor& rows) {  // (g, R, n)
  return rows.transpose(1, 2).matmul(rows);
}

TEST(Covariance, LinearWithBiasIsTheGramMatrixOfTheAugmentedRows) {
  const auto x = torch::randn({6, 5, 4}, torch::kFloat64);
  const auto rows = torch::cat({x.reshape({30, 4}), torch::ones({30, 1}, torch::kFloat64)}, 1);
  const auto moment = adaact::covariance(x, Geometry::linear(), /*with_bias=*/true);
  EXPECT_EQ(moment.count, 30);
  EXPECT_TRUE(all_close(moment.sum, explicit_covariance(rows.unsqueeze(0)), 1e-13));
}

TEST(Covariance, GroupedConvolutionHasOneMatrixPerGroup) {
  const auto x = torch::randn({5, 4, 8, 7}, torch::kFloat64);
  const auto geometry = Geometry::convolution({3, 2}, {2, 1}, {1, 0}, {1, 2}, 2);
  const auto moment = adaact::covariance(x, geometry, /*with_bias=*/false);
  EXPECT_TRUE(all_close(moment.sum, explicit_covariance(adaact::patch_matrix(x, geometry)), 1e-13));
}

/// Sums of small whole numbers are exact, in whatever order they are made.
TEST(Covariance, ManyChunksAddUpToOne) {
  // 9.4 MB of patches a sample and a half: 8 MiB chunks
  const auto x = torch::randint(-3, 4, {48, 8, 24, 24}).to(torch::kFloat32);
  const auto geometry = Geometry::convolution({3, 3}, {1}, {1}, {1}, 1);
  const auto moment = adaact::covariance(x, geometry, /*with_bias=*/true);
  const auto patches = adaact::patch_matrix(x.to(torch::kFloat64), geometry);
  const auto rows = torch::cat({patches, torch::ones({1, patches.size(1), 1}, torch::kFloat64)}, 2);
  EXPECT_EQ(moment.count, patches.size(1));
  EXPECT_TRUE(bit_identical(moment.sum.to(torch::kFloat64), explicit_covariance(rows)));
}

TEST(Covariance, DiagonalIsTheSecondMoment) {
  const auto x = torch::randn({5, 6, 9}, torch::kFloat64);
  const auto geometry = Geometry::convolution_with_named_padding({4}, {2}, "valid", {1}, 3);
  const auto full = adaact::covariance(x, geometry, /*with_bias=*/false);
  const auto diagonal = adaact::second_moment(x, geometry);
  EXPECT_EQ(full.count, diagonal.count);
  EXPECT_TRUE(all_close(full.sum.diagonal(0, 1, 2), diagonal.sum, 1e-13));
}

TEST(Covariance, EmptyBatchIsNothing) {
  const auto geometry = Geometry::convolution({3, 2}, {2, 1}, {1, 0}, {1, 2}, 2);
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const auto x = torch::empty({0, 4, 8, 7}, dtype);
    EXPECT_EQ(adaact::patch_matrix(x, geometry).sizes(), (std::vector<std::int64_t>{2, 0, 12}));
    const auto moment = adaact::covariance(x, geometry, /*with_bias=*/true);
    EXPECT_EQ(moment.count, 0);
    EXPECT_TRUE(moment.sum.equal(torch::zeros({2, 13, 13}, dtype)));
  }
}

TEST(Covariance, BFloat16InputIsSummedInFloat32) {
  const auto x = torch::randn({64, 5}).to(torch::kBFloat16);
  const auto moment = adaact::covariance(x, Geometry::linear(), /*with_bias=*/true);
  EXPECT_EQ(moment.sum.scalar_type(), torch::kFloat32);
  const auto exact = adaact::covariance(x.to(torch::kFloat64), Geometry::linear(), true);
  EXPECT_TRUE(all_close(moment.sum, exact.sum, 1e-6));
}

// A BLAS adds float32 rows in float32, however many there are: hence 1e-5.
TEST(CovarianceTest, AgreesWithThePatchMatrixOverDrawnLayers) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    adaact::testing::CaseGenerator cases(11);
    for (int i = 0; i < 150; ++i) {
      const auto layer = cases.draw(dtype);
      const bool with_bias = i % 2 == 0;
      const auto moment = adaact::covariance(layer.input, layer.geometry, with_bias);
      auto rows = adaact::patch_matrix(layer.input.to(torch::kFloat64), layer.geometry);
      if (with_bias) {
        rows = torch::cat({rows, torch::ones({rows.size(0), rows.size(1), 1}, rows.options())}, 2);
      }
      EXPECT_EQ(moment.count, rows.size(1));
      EXPECT_TRUE(
          all_close(moment.sum, explicit_covariance(rows), dtype == torch::kFloat64 ? 1e-12 : 1e-5))
          << layer;
    }
  }
}

}  // namespace
