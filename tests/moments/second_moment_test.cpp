#include <filesystem>
#include <iterator>

#include <adaact/moments/moments.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/layer_cases.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Geometry;
using adaact::Moment;

class SecondMoment : public ::testing::TestWithParam<torch::ScalarType> {};

TEST_P(SecondMoment, EveryImplementationAgreesWithThePatchMatrixOverManyShapes) {
  const auto dtype = GetParam();
  CaseGenerator generator(20240814);
  for (int i = 0; i < 400; ++i) {
    const auto c = generator.draw(dtype);
    SCOPED_TRACE(c);
    const auto reference = adaact::second_moment_reference(c.input, c.geometry);
    for (const auto implementation : {&adaact::second_moment_cpu, &adaact::second_moment_tensor}) {
      const Moment moment = implementation(c.input, c.geometry);
      EXPECT_EQ(moment.count, reference.count);
      EXPECT_EQ(moment.sum.scalar_type(),
                dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
      EXPECT_TRUE(all_close(moment.sum, reference.sum, tolerance(dtype)));
    }
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SecondMoment,
                         ::testing::Values(torch::kFloat64, torch::kFloat32, torch::kBFloat16,
                                           torch::kHalf),
                         [](const auto& info) { return c10::toString(info.param); });

/// The oracle itself, against the convolution operator: a one-hot kernel reads one patch entry.
TEST(PatchMatrix, OneHotKernelsReadItsColumns) {
  const auto x = torch::randn({2, 4, 7, 6}, torch::kFloat64);
  const auto geometry = Geometry::convolution({2, 3}, {2, 1}, {1, 2}, {2, 1}, 2);
  const auto patches = adaact::patch_matrix(x, geometry);  // (2, N·P, 12)
  const auto one_hot = torch::eye(12, torch::kFloat64).view({12, 2, 2, 3}).repeat({2, 1, 1, 1});
  const auto columns = at::conv2d(x, one_hot, {}, {2, 1}, {1, 2}, {2, 1}, 2);  // (N, 24, …)
  const auto expected = columns.flatten(2).permute({1, 0, 2}).reshape({2, 12, -1}).transpose(1, 2);
  EXPECT_TRUE(bit_identical(patches, expected.contiguous()));
}

TEST(SecondMomentCpu, LargeInputAgreesWithTheReferenceForAnyNumberOfThreads) {
  torch::manual_seed(1);
  const auto threads = at::get_num_threads();
  for (const auto& x :
       {torch::randn({64, 16, 32, 32}), torch::randn({20000, 7}), torch::randn({5000, 384})}) {
    const auto geometry =
        x.dim() == 4 ? Geometry::convolution({3, 3}, {1}, {1}, {1}, 1) : Geometry::linear();
    at::set_num_threads(1);
    const auto one = adaact::second_moment_cpu(x, geometry).sum;
    at::set_num_threads(4);
    const auto four = adaact::second_moment_cpu(x, geometry).sum;
    EXPECT_TRUE(bit_identical(four, one)) << x.sizes();
    const auto reference = adaact::second_moment_reference(x.to(torch::kFloat64), geometry).sum;
    EXPECT_TRUE(all_close(one, reference, tolerance(torch::kFloat32))) << x.sizes();
  }
  at::set_num_threads(threads);
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

/// at::parallel_for runs its loop on one thread where it is compiled without OpenMP.
TEST(SecondMomentCpu, LargeInputIsSharedByThreads) {
#if defined(__clang__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "compiled without OpenMP";
#endif
  const auto threads = at::get_num_threads();
  const auto x = torch::ones({64, 16, 32, 32});
  at::set_num_threads(static_cast<int>(threads_of_this_process()) + 2);
  const auto before = threads_of_this_process();  // LibTorch has made some for other things
  adaact::second_moment_cpu(x, Geometry::convolution({3, 3}, {1}, {1}, {1}, 1));
  EXPECT_GT(threads_of_this_process(), before);
  at::set_num_threads(threads);
}

TEST(SecondMomentCpu, MillionSmallNumbersAfterOneLargeOneAreNotLost) {
  auto x = torch::full({1 << 20, 1}, 1e-3F);
  x[0] = 100.0F;
  const auto sum = adaact::second_moment_cpu(x, Geometry::linear()).sum.item<double>();
  EXPECT_NEAR(sum, 1e4 + ((1 << 20) - 1) * 1e-6, 1e-2);
}

TEST(SecondMomentCpu, HalfPrecisionSquaresBeyondItsRangeAreSummedInFloat32) {
  const auto x = torch::full({8, 3}, 30000.0).to(torch::kHalf);
  const auto mean = adaact::second_moment_cpu(x, Geometry::linear()).mean();
  EXPECT_TRUE(all_close(mean, torch::full({1, 3}, 9e8), 1e-3));
}

TEST(SecondMomentCpu, EmptyBatchCountsNothing) {
  const auto moment = adaact::second_moment_cpu(torch::zeros({0, 5}), Geometry::linear());
  EXPECT_EQ(moment.count, 0);
  EXPECT_TRUE(torch::equal(moment.sum, torch::zeros({1, 5})));
}

TEST(SecondMomentCpu, PermutedSamplesAndFeaturesPermuteTheResult) {
  const auto x = torch::randn({50, 6}, torch::kFloat64);
  const auto moment = adaact::second_moment(x, Geometry::linear()).sum;
  const auto features = torch::randperm(6);
  EXPECT_TRUE(
      all_close(adaact::second_moment(x.index({torch::randperm(50)}), Geometry::linear()).sum,
                moment, 1e-14));
  EXPECT_TRUE(all_close(adaact::second_moment(x.index_select(1, features), Geometry::linear()).sum,
                        moment.index_select(1, features), 1e-14));
}

TEST(SecondMomentCuda, InputOnTheCpuOrABuildWithoutCudaIsAnErrorThatSaysSo) {
  const auto error = error_of([] {
    adaact::second_moment_cuda(torch::ones({2, 3}), Geometry::linear());
  });
  EXPECT_TRUE(contains(error, "CUDA"));
}

TEST(Geometry, InputThatDoesNotFitIsAnErrorThatSaysWhy) {
  const auto geometry = Geometry::convolution({3, 3}, {1}, {0}, {1}, 2);
  const auto error = [&](const std::vector<int64_t>& shape) {
    return error_of([&] { adaact::second_moment_cpu(torch::ones(shape), geometry); });
  };
  EXPECT_TRUE(contains(error({1, 3, 5, 5}), "3 channels cannot be split into 2 groups"));
  EXPECT_TRUE(contains(error({1, 2, 2, 5}), "does not fit a padded input of 2"));
  EXPECT_TRUE(contains(error({2, 2}), "2-d convolution has 2 dimensions"));
  EXPECT_TRUE(contains(error_of([] {
                         Geometry::convolution_with_named_padding({3, 3}, {1}, "full", {1}, 1);
                       }),
                       "'full'"));
}

}  // namespace
