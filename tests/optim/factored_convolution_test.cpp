// FOOF and KFAC of convolutions against a patch matrix built here, in float64.

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "optim/factored_support.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::Foof;
using adaact::Kfac;

struct ConvCase {
  const char* name;
  torch::nn::Conv2dOptions options;
  std::vector<int64_t> padding{0, 0};
};

std::ostream& operator<<(std::ostream& out, const ConvCase& c) { return out << c.name; }

class ConvolutionTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    torch::manual_seed(6);
    auto options = GetParam().options;
    conv_ = torch::nn::Conv2d(options.padding(GetParam().padding));
    conv_->to(torch::kFloat64);
    x_ = torch::randn({5, GetParam().options.in_channels(), 7, 6}, torch::kFloat64);
  }

  /// Runs forward and backward and keeps what went in and came back.
  void run(torch::optim::Optimizer& optimizer) {
    before_ = joint(conv_->weight, conv_->bias);
    auto output = conv_->forward(x_);
    output.retain_grad();
    (torch::tanh(output).sum({1, 2, 3})).mean().backward();
    optimizer.step();
    output_gradient_ = output.grad();
    gradient_ =
        joint(conv_->weight.grad(), conv_->bias.defined() ? conv_->bias.grad() : torch::Tensor());
  }

  /// (N·P, n) rows of the patch matrix of one group, with a column of ones where there is a bias.
  torch::Tensor patches(int64_t group) const {
    const auto& o = GetParam().options;
    const auto channels = o.in_channels() / o.groups();
    const auto slice = x_.narrow(1, group * channels, channels);
    namespace F = torch::nn::functional;
    const auto unfolded = F::unfold(slice, F::UnfoldFuncOptions(o.kernel_size())
                                               .stride(o.stride())
                                               .padding(GetParam().padding)
                                               .dilation(o.dilation()));
    const auto rows = unfolded.transpose(1, 2).reshape({-1, unfolded.size(1)});
    return o.bias() ? with_ones(rows) : rows;
  }
  /// (N·P, r) output gradients of one group.
  torch::Tensor output_gradients(int64_t group) const {
    const auto& o = GetParam().options;
    const auto rows = o.out_channels() / o.groups();
    return output_gradient_.narrow(1, group * rows, rows).permute({0, 2, 3, 1}).reshape({-1, rows});
  }
  torch::Tensor rows_of_group(const torch::Tensor& matrix, int64_t group) const {
    const auto rows = matrix.size(0) / GetParam().options.groups();
    return matrix.narrow(0, group * rows, rows);
  }

  torch::nn::Conv2d conv_{nullptr};
  torch::Tensor x_, before_, gradient_, output_gradient_;
};

TEST_P(ConvolutionTest, FoofMatchesThePatchMatrix) {
  const double damping = 0.1;
  Foof optimizer(*conv_, plain_foof().damping(damping));
  run(optimizer);
  const auto after = joint(conv_->weight, conv_->bias);
  for (int64_t group = 0; group < GetParam().options.groups(); ++group) {
    const auto rows = patches(group);
    const auto a = rows.t().matmul(rows) / static_cast<double>(rows.size(0));
    const auto v =
        rows_of_group(gradient_, group).matmul(at::linalg_inv(a + damping * identity(a.size(0))));
    EXPECT_TRUE(all_close(rows_of_group(after, group), rows_of_group(before_, group) - v, 1e-9));
  }
}

TEST_P(ConvolutionTest, KfacMatchesThePatchMatrix) {
  const double damping = 0.1;
  Kfac optimizer(*conv_, plain_kfac().damping(damping));
  run(optimizer);
  const auto after = joint(conv_->weight, conv_->bias);
  const auto samples = static_cast<double>(x_.size(0));
  for (int64_t group = 0; group < GetParam().options.groups(); ++group) {
    const auto rows = patches(group);
    const auto a = rows.t().matmul(rows) / samples;
    const auto s = output_gradients(group) * samples;
    const auto p = s.t().matmul(s) / static_cast<double>(s.size(0));
    const auto v = kronecker_solve(p, a, damping, rows_of_group(gradient_, group).contiguous());
    EXPECT_TRUE(all_close(rows_of_group(after, group), rows_of_group(before_, group) - v, 1e-9));
  }
}

using ConvOptions = torch::nn::Conv2dOptions;
INSTANTIATE_TEST_SUITE_P(
    Geometries, ConvolutionTest,
    ::testing::Values(ConvCase{"plain", ConvOptions(2, 3, 3)},
                      ConvCase{"no_bias", ConvOptions(2, 3, 3).bias(false)},
                      ConvCase{"padded", ConvOptions(2, 3, 3), {1, 1}},
                      ConvCase{"strided", ConvOptions(2, 3, 3).stride(2), {1, 1}},
                      ConvCase{"dilated", ConvOptions(2, 3, 3).dilation(2), {2, 2}},
                      ConvCase{"oblong", ConvOptions(2, 3, {1, 3}).stride({2, 1}), {0, 1}},
                      ConvCase{"grouped", ConvOptions(4, 6, 3).groups(2), {1, 1}},
                      ConvCase{"depthwise", ConvOptions(3, 3, 3).groups(3).bias(false)},
                      ConvCase{"pointwise", ConvOptions(3, 4, 1)}),
    [](const auto& info) { return info.param.name; });

}  // namespace
