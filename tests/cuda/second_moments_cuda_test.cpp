// Second moments of many layers' inputs on a GPU against the patch matrix. Skips, visibly, where
// there is none.

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "moments/offered_squares.h"
#include "moments/second_moments_cuda.h"
#include "support/layer_cases.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Geometry;
using adaact::Moment;
using adaact::MomentInput;
using adaact::second_moments_cuda;
using adaact::still_to_read;
using adaact::StillToRead;

const auto kDtypes = {torch::kFloat32, torch::kBFloat16, torch::kHalf, torch::kFloat64};

class SecondMomentsCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(71);
  }
};

/// to(kCUDA) would make a slice dense. An expanded batch is expanded again.
torch::Tensor on_gpu_with_same_strides(const torch::Tensor& x) {
  if (x.dim() >= 2 && x.size(0) > 1 && x.stride(0) == 0) {
    return on_gpu_with_same_strides(x.narrow(0, 0, 1)).expand(x.sizes());
  }
  return torch::empty_strided(x.sizes(), x.strides(), x.options().device(torch::kCUDA)).copy_(x);
}

/// The oracle in float64, where it is exact enough for any number of rows.
Moment expected_of(const torch::Tensor& x, const Geometry& geometry) {
  return adaact::second_moment_reference(x.to(torch::kFloat64), geometry);
}

void expect_agrees(const Moment& moment, const torch::Tensor& x, const Geometry& geometry) {
  const auto expected = expected_of(x, geometry);
  EXPECT_EQ(moment.count, expected.count);
  EXPECT_TRUE(moment.sum.is_cuda());
  EXPECT_TRUE(moment.sum.is_contiguous());
  EXPECT_EQ(moment.sum.scalar_type(),
            x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
  EXPECT_TRUE(
      all_close(moment.sum, expected.sum.to(moment.sum.device()), tolerance(x.scalar_type())))
      << x.scalar_type() << " " << x.sizes() << " strides " << x.strides();
}

void expect_agrees(const torch::Tensor& x, const Geometry& geometry) {
  expect_agrees(second_moments_cuda({{x, geometry}}).at(0), x, geometry);
}

torch::Tensor normal(at::IntArrayRef shape, torch::ScalarType dtype) {
  return torch::randn(shape, torch::dtype(torch::kFloat32).device(torch::kCUDA)).to(dtype);
}

torch::Tensor channels_last(const torch::Tensor& x) {
  return x.contiguous(torch::MemoryFormat::ChannelsLast);
}

Geometry square_kernel(int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
  return Geometry::convolution({kernel, kernel}, {stride}, {kernel / 2}, {1}, groups);
}

TEST_F(SecondMomentsCuda, DrawnShapesAgreeWithThePatchMatrixAndRepeatThemselves) {
  CaseGenerator generator(20250301);
  for (const auto dtype : kDtypes) {
    for (int i = 0; i < 400; ++i) {
      const auto c = generator.draw(dtype);
      SCOPED_TRACE(c);
      const auto x = on_gpu_with_same_strides(c.input);
      const auto moment = second_moments_cuda({{x, c.geometry}}).at(0);
      expect_agrees(moment, c.input, c.geometry);
      EXPECT_TRUE(bit_identical(second_moments_cuda({{x, c.geometry}}).at(0).sum, moment.sum));
      if (HasFailure()) return;
    }
  }
}

TEST_F(SecondMomentsCuda, MixedListGivesTheBitsOfEachInputAlone) {
  CaseGenerator generator(20250302);
  // More than one launch takes, in some of the lists.
  for (const std::size_t length : {2U, 5U, 25U, 70U, 300U, 1300U}) {
    std::vector<MomentInput> inputs;
    for (std::size_t i = 0; i < length; ++i) {
      const auto c = generator.draw(*(kDtypes.begin() + i % kDtypes.size()));
      inputs.push_back({on_gpu_with_same_strides(c.input), c.geometry});
    }
    const auto moments = second_moments_cuda(inputs);
    ASSERT_EQ(moments.size(), length);
    for (std::size_t i = 0; i < length; ++i) {
      const auto alone = second_moments_cuda({inputs[i]}).at(0);
      EXPECT_EQ(moments[i].count, alone.count);
      EXPECT_TRUE(bit_identical(moments[i].sum, alone.sum)) << i << " of " << length;
      if (HasFailure()) return;
    }
  }
}

TEST_F(SecondMomentsCuda, ListOfOneDtypeLongerThanALaunchAgrees) {
  std::vector<MomentInput> inputs;
  for (int i = 0; i < 1000; ++i) {
    if (i % 2 == 0) {
      inputs.push_back({normal({1 + i % 50, 1 + i}, torch::kBFloat16), Geometry::linear()});
    } else {
      inputs.push_back({normal({2, 1 + i % 30, 5, 6}, torch::kBFloat16), square_kernel(3)});
    }
  }
  const auto moments = second_moments_cuda(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    expect_agrees(moments[i], inputs[i].input, inputs[i].geometry);
    if (HasFailure()) return;
  }
}

TEST_F(SecondMomentsCuda, EmptyListAndEmptyInputs) {
  EXPECT_TRUE(second_moments_cuda({}).empty());
  const auto empty = torch::empty({0, 7}, torch::kCUDA);
  const auto full = normal({3, 7}, torch::kFloat32);
  const auto moments =
      second_moments_cuda({{empty, Geometry::linear()}, {full, Geometry::linear()}});
  EXPECT_EQ(moments.at(0).count, 0);
  EXPECT_TRUE(bit_identical(moments.at(0).sum.cpu(), torch::zeros({1, 7})));
  expect_agrees(moments.at(1), full, Geometry::linear());
}

TEST_F(SecondMomentsCuda, InputOnTheCpuIsAnError) {
  EXPECT_THROW(second_moments_cuda({{torch::randn({2, 3}), Geometry::linear()}}), c10::Error);
}

/// Sums over all samples and positions of each channel of images, in some parts, as a layer offers them.
torch::Tensor squares_of_channels(const torch::Tensor& images, int64_t parts = 1) {
  const auto total = images.to(torch::kFloat64).square().sum({0, 2, 3});
  const auto shares = torch::rand({parts, 1}, total.options()) + 0.5;
  const auto dtype = images.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return (shares / shares.sum() * total).to(dtype).contiguous();
}

MomentInput with_squares(const torch::Tensor& images, const Geometry& geometry, int64_t parts = 1) {
  return {images, geometry, squares_of_channels(images, parts)};
}

/// Images of which the border alone is read: their squares were offered.
class BordersCuda : public SecondMomentsCuda {
 protected:
  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  MomentInput draw_input(torch::ScalarType dtype) {
    const int64_t of_layers[] = {3, 16, 24, 64, 160, 512};
    const auto channels = draw(0, 1) == 0 ? draw(1, 70) : of_layers[draw(0, 5)];
    const auto most_images = channels > 70 ? 20 : 130;
    const auto images = normal({draw(1, most_images), channels, draw(2, 33), draw(2, 33)}, dtype);
    return with_squares(channels_last(images), square_kernel(3), draw(1, 300));
  }

 private:
  std::mt19937 random_{83};
};

TEST_F(BordersCuda, DrawnShapesAgreeWithThePatchMatrixAndRepeatThemselves) {
  for (const auto dtype : kDtypes) {
    for (int i = 0; i < 60; ++i) {
      const auto input = draw_input(dtype);
      ASSERT_EQ(still_to_read(input.input, input.geometry), StillToRead::Border);
      const auto moment = second_moments_cuda({input}).at(0);
      expect_agrees(moment, input.input, input.geometry);
      EXPECT_TRUE(bit_identical(second_moments_cuda({input}).at(0).sum, moment.sum));
      if (HasFailure()) return;
    }
  }
}

TEST_F(BordersCuda, ImagesOfEveryProportionAgree) {
  for (const auto dtype : kDtypes) {
    for (const int64_t height : {2, 3, 4, 7, 32}) {
      for (const int64_t width : {2, 3, 5, 8, 100}) {
        for (const int64_t images : {1, 2, 129}) {
          for (const int64_t channels : {1, 8, 21}) {
            const auto x = channels_last(normal({images, channels, height, width}, dtype));
            expect_agrees(second_moments_cuda({with_squares(x, square_kernel(3), 7)}).at(0), x,
                          square_kernel(3));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

/// Powers of two add up without rounding, so a pixel that is missed or counted twice cannot hide.
TEST_F(BordersCuda, EveryPixelCountsOnce) {
  for (const int64_t channels : {5, 64}) {
    for (const int64_t size : {2, 3, 6}) {
      const auto x = channels_last(
          torch::zeros({3, channels, size, size}, torch::dtype(torch::kBFloat16).device("cuda")));
      for (int64_t pixel = 0; pixel < size * size; ++pixel) {
        x.zero_();
        x.select(2, pixel / size).select(2, pixel % size).fill_(2.0);
        const auto sum = second_moments_cuda({with_squares(x, square_kernel(3))}).at(0).sum;
        const auto expected = expected_of(x, square_kernel(3)).sum;
        EXPECT_TRUE(bit_identical(sum.to(torch::kFloat64), expected)) << size << " " << pixel;
      }
    }
  }
}

TEST_F(BordersCuda, MixedListGivesTheBitsOfEachInputAlone) {
  CaseGenerator generator(20250303);
  for (const std::size_t length : {2U, 5U, 70U, 700U}) {
    std::vector<MomentInput> inputs;
    for (std::size_t i = 0; i < length; ++i) {
      const auto dtype = *(kDtypes.begin() + i / 3 % kDtypes.size());
      if (i % 3 == 0) {
        const auto c = generator.draw(dtype);
        inputs.push_back({on_gpu_with_same_strides(c.input), c.geometry});
      } else if (length < 100) {
        inputs.push_back(draw_input(dtype));
      } else {
        const auto channels = static_cast<int64_t>(1 + i % 40);
        inputs.push_back(
            with_squares(channels_last(normal({3, channels, 4, 5}, dtype)), square_kernel(3), 2));
      }
    }
    const auto moments = second_moments_cuda(inputs);
    for (std::size_t i = 0; i < length; ++i) {
      const auto alone = second_moments_cuda({inputs[i]}).at(0);
      EXPECT_EQ(moments[i].count, alone.count);
      EXPECT_TRUE(bit_identical(moments[i].sum, alone.sum)) << i << " of " << length;
      if (HasFailure()) return;
    }
  }
}

TEST_F(BordersCuda, AddressOfTheInputDoesNotChangeTheBits) {
  for (const auto dtype : kDtypes) {
    const auto x = channels_last(normal({40, 32, 9, 10}, dtype));
    auto elsewhere = torch::empty({x.numel() + 1}, x.options()).narrow(0, 1, x.numel());
    elsewhere.copy_(x.permute({0, 2, 3, 1}).reshape({-1}));
    const auto moved = elsewhere.view({40, 9, 10, 32}).permute({0, 3, 1, 2});
    const auto squares = squares_of_channels(x, 5);
    const auto moments =
        second_moments_cuda({{x, square_kernel(3), squares}, {moved, square_kernel(3), squares}});
    EXPECT_TRUE(bit_identical(moments.at(0).sum, moments.at(1).sum));
    expect_agrees(moments.at(1), moved, square_kernel(3));
  }
}

/// With squares that are all wrong, what ignores them is right.
TEST_F(BordersCuda, OtherLayersReadTheirWholeInput) {
  const auto expect_ignored = [](const torch::Tensor& x, const Geometry& geometry) {
    EXPECT_EQ(still_to_read(x, geometry), StillToRead::Everything);
    const auto wrong = torch::full({2, x.size(1)}, 1e6, torch::kCUDA);
    expect_agrees(second_moments_cuda({{x, geometry, wrong}}).at(0), x, geometry);
  };
  const auto x = channels_last(normal({20, 16, 9, 8}, torch::kBFloat16));
  expect_ignored(x, square_kernel(3, 2));
  expect_ignored(x, square_kernel(3, 1, 4));
  expect_ignored(x, square_kernel(5));
  expect_ignored(x, square_kernel(1, 2));
  expect_ignored(x, Geometry::convolution({3, 3}, {1}, {0}, {1}, 1));
  expect_ignored(x, Geometry::convolution({3, 3}, {1}, {1}, {2}, 1));
  expect_ignored(x, Geometry::convolution({3, 1}, {1}, {1, 0}, {1}, 1));
  expect_ignored(x.contiguous(), square_kernel(3));
  expect_ignored(x.narrow(1, 0, 8), square_kernel(3));
  expect_ignored(x.narrow(2, 0, 1), square_kernel(3));
  expect_ignored(x.narrow(3, 0, 1), square_kernel(3));
}

TEST_F(BordersCuda, SquaresAloneAreTheSumsOfSinglePixels) {
  const auto x = channels_last(normal({20, 16, 9, 8}, torch::kBFloat16));
  ASSERT_EQ(still_to_read(x, square_kernel(1)), StillToRead::Nothing);
  const auto squares = squares_of_channels(x, 30);
  const auto moments = second_moments_cuda(
      {{x, square_kernel(1), squares}, {{}, square_kernel(1), squares, 20 * 9 * 8}});
  for (const auto& moment : moments) expect_agrees(moment, x, square_kernel(1));
}

TEST_F(BordersCuda, CapturedInAGraphFollowTheirInputs) {
  auto input =
      with_squares(channels_last(normal({64, 32, 8, 8}, torch::kBFloat16)), square_kernel(3), 12);
  second_moments_cuda({input});  // loads the kernels
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  Moment captured;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    captured = second_moments_cuda({input}).at(0);
    graph.capture_end();
  }
  for (int replay = 0; replay < 3; ++replay) {
    input.input.normal_();
    input.squares.copy_(squares_of_channels(input.input, 12));
    graph.replay();
    EXPECT_TRUE(bit_identical(captured.sum, second_moments_cuda({input}).at(0).sum));
    expect_agrees(captured, input.input, input.geometry);
  }
}

TEST_F(SecondMomentsCuda, LinearInputsOfEveryProportionAgree) {
  for (const auto dtype : kDtypes) {
    for (const int64_t rows : {1, 2, 7, 8, 15, 16, 31, 33, 63, 64, 127, 129, 255, 1000, 40001}) {
      for (const int64_t columns : {1, 3, 8, 31, 64, 127, 256, 384, 1000, 1536, 2049}) {
        expect_agrees(normal({rows, columns}, dtype), Geometry::linear());
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(SecondMomentsCuda, ImagesOfRealNetworksAgree) {
  struct Layer {
    std::vector<int64_t> shape;
    Geometry geometry;
  };
  const std::vector<Layer> layers{
      {{128, 16, 32, 32}, square_kernel(3)},    {{130, 16, 32, 32}, square_kernel(3, 2)},
      {{128, 64, 8, 8}, square_kernel(3)},      {{128, 32, 16, 16}, square_kernel(1, 2)},
      {{16, 3, 224, 224}, square_kernel(7, 2)}, {{260, 64, 14, 14}, square_kernel(3)},
      {{16, 256, 28, 28}, square_kernel(1)},    {{8, 96, 28, 28}, square_kernel(7, 1, 96)},
      {{64, 3, 225, 225}, square_kernel(7, 2)}, {{40, 512, 7, 7}, square_kernel(3)},
      {{4, 8, 33, 47}, square_kernel(5, 3, 4)}, {{1, 64, 56, 56}, square_kernel(3)},
      {{2, 3, 9, 700}, square_kernel(9, 4)},
  };
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const auto& [shape, geometry] : layers) {
      const auto x = normal(shape, dtype);
      expect_agrees(x, geometry);
      expect_agrees(channels_last(x), geometry);
      if (HasFailure()) return;
    }
  }
}

TEST_F(SecondMomentsCuda, SignalsAgree) {
  for (const auto dtype : kDtypes) {
    expect_agrees(normal({8, 3, 16000}, dtype), Geometry::convolution({9}, {4}, {4}, {1}, 1));
    expect_agrees(normal({3, 2, 900}, dtype), Geometry::convolution({400}, {1}, {0}, {1}, 1));
    // More outputs of a row of the kernel than a block has threads.
    expect_agrees(normal({3, 2, 4, 900}, dtype), Geometry::convolution({1, 300}, {1}, {0}, {1}, 1));
  }
}

TEST_F(SecondMomentsCuda, PaddingThatDiffersBeforeAndAfterAgrees) {
  const auto geometry = Geometry::convolution_with_named_padding({2, 4}, {1}, "same", {1, 3}, 1);
  const auto x = normal({130, 6, 9, 11}, torch::kBFloat16);
  expect_agrees(x, geometry);
  expect_agrees(channels_last(x), geometry);
}

TEST_F(SecondMomentsCuda, UnalignedViewsAgree) {
  for (const auto dtype : kDtypes) {
    const auto x = normal({301, 300}, dtype);
    expect_agrees(x.narrow(1, 1, 299), Geometry::linear());
    expect_agrees(x.narrow(1, 8, 256), Geometry::linear());  // aligned, but with a gap
    expect_agrees(x.narrow(1, 5, 2), Geometry::linear());
    expect_agrees(x.narrow(0, 1, 300), Geometry::linear());
    expect_agrees(x.t(), Geometry::linear());
    expect_agrees(x.slice(0, 0, 301, 3), Geometry::linear());
    expect_agrees(x.narrow(0, 4, 1).expand({200, 300}), Geometry::linear());
    const auto flat = normal({128 * 6 * 8 * 8 + 1}, dtype);
    const auto odd_address = flat.narrow(0, 1, 128 * 6 * 8 * 8).view({128, 6, 8, 8});
    expect_agrees(odd_address, square_kernel(3));
    expect_agrees(odd_address.narrow(1, 1, 4), square_kernel(3));
    expect_agrees(channels_last(odd_address).narrow(1, 1, 4), square_kernel(3));
    expect_agrees(odd_address.transpose(2, 3), square_kernel(3, 2));
    expect_agrees(odd_address.slice(0, 0, 128, 2), square_kernel(3));
    if (HasFailure()) return;
  }
}

TEST_F(SecondMomentsCuda, AddressOfTheInputDoesNotChangeTheBits) {
  for (const auto dtype : kDtypes) {
    const auto x = normal({4100, 48}, dtype);
    auto elsewhere = torch::empty({x.numel() + 1}, x.options()).narrow(0, 1, x.numel());
    elsewhere.copy_(x.view({-1}));
    const auto moments =
        second_moments_cuda({{x, Geometry::linear()}, {elsewhere.view_as(x), Geometry::linear()}});
    EXPECT_TRUE(bit_identical(moments.at(0).sum, moments.at(1).sum));
  }
}

TEST_F(SecondMomentsCuda, EverySumIsWritten) {
  // Memory that the allocator hands out again, full of NaN.
  { const auto poison = torch::full({1 << 24}, std::nan(""), torch::kCUDA); }
  const auto x = normal({64, 20, 6, 5}, torch::kBFloat16);
  const auto geometry = Geometry::convolution({3, 3}, {1}, {3}, {1}, 1);  // some see only padding
  expect_agrees(x, geometry);
  expect_agrees(normal({2, 1, 1, 1}, torch::kBFloat16), square_kernel(7));
}

TEST_F(SecondMomentsCuda, NonFiniteInputStaysInItsColumn) {
  auto x = normal({500, 40}, torch::kFloat32);
  x[17][3] = std::numeric_limits<float>::infinity();
  x[18][4] = std::nanf("");
  const auto sum = second_moments_cuda({{x, Geometry::linear()}}).at(0).sum.view({-1}).cpu();
  EXPECT_TRUE(std::isinf(sum[3].item<float>()));
  EXPECT_TRUE(std::isnan(sum[4].item<float>()));
  EXPECT_EQ(sum.isfinite().sum().item<int64_t>(), 38);
}

TEST_F(SecondMomentsCuda, CapturedInAGraphFollowsItsInputs) {
  std::vector<MomentInput> inputs{
      {normal({200, 64}, torch::kBFloat16), Geometry::linear()},
      {channels_last(normal({128, 16, 16, 16}, torch::kBFloat16)), square_kernel(3)},
      {normal({9, 4, 7, 7}, torch::kFloat32), square_kernel(3, 2)},
      {normal({9, 4}, torch::kFloat64), Geometry::linear()},
  };
  second_moments_cuda(inputs);  // loads the kernels
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  std::vector<Moment> captured;
  {
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    captured = second_moments_cuda(inputs);
    graph.capture_end();
  }
  for (int replay = 0; replay < 3; ++replay) {
    for (auto& each : inputs) each.input.normal_();
    graph.replay();
    const auto direct = second_moments_cuda(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(bit_identical(captured[i].sum, direct[i].sum)) << i;
      expect_agrees(captured[i], inputs[i].input, inputs[i].geometry);
    }
  }
}

TEST_F(SecondMomentsCuda, SideStreamIsRespected) {
  const auto x = normal({5000, 1024}, torch::kFloat32);
  torch::cuda::synchronize();
  Moment moment;
  const auto side = c10::cuda::getStreamFromPool();
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    auto late = x;
    for (int i = 0; i < 20; ++i) late = late * 1.01;
    moment = second_moments_cuda({{late, Geometry::linear()}}).at(0);
    expect_agrees(moment, late, Geometry::linear());
  }
  side.synchronize();
}

TEST_F(SecondMomentsCuda, SeveralDevices) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "only one CUDA device";
  const auto first = normal({50, 20}, torch::kFloat32);
  const auto second = first.to(c10::Device(torch::kCUDA, 1));
  const auto moments =
      second_moments_cuda({{first, Geometry::linear()}, {second, Geometry::linear()}});
  EXPECT_EQ(moments.at(1).sum.device().index(), 1);
  EXPECT_TRUE(bit_identical(moments.at(0).sum.cpu(), moments.at(1).sum.cpu()));
}

TEST_F(SecondMomentsCuda, LargeLinearInputAgrees) {
  const auto x = normal({50432, 1536}, torch::kBFloat16);
  const auto sum = second_moments_cuda({{x, Geometry::linear()}}).at(0).sum;
  EXPECT_TRUE(
      all_close(sum, x.to(torch::kFloat64).square().sum(0, true), tolerance(torch::kBFloat16)));
}

TEST_F(SecondMomentsCuda, MoreThan32BitsOfElementsAgree) {
  constexpr int64_t kRows = 1100003;
  constexpr int64_t kColumns = 2048;
  std::size_t free = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  if (free < (std::size_t{16} << 30)) GTEST_SKIP() << "too little memory";
  auto x = torch::empty({kRows, kColumns}, torch::dtype(torch::kBFloat16).device(torch::kCUDA));
  auto expected = torch::zeros({1, kColumns}, torch::dtype(torch::kFloat64).device(torch::kCUDA));
  for (int64_t begin = 0; begin < kRows; begin += 100000) {
    auto part = x.narrow(0, begin, std::min<int64_t>(100000, kRows - begin));
    part.normal_();
    expected += part.to(torch::kFloat64).square().sum(0, true);
  }
  const auto moment = second_moments_cuda({{x, Geometry::linear()}}).at(0);
  EXPECT_EQ(moment.count, kRows);
  EXPECT_TRUE(all_close(moment.sum, expected, tolerance(torch::kBFloat16)));
  // The same numbers as images whose rows are far apart.
  const auto images = x.view({kRows, 32, 8, 8}).slice(0, 0, kRows, 1000);
  expect_agrees(images, square_kernel(3));
}

}  // namespace
