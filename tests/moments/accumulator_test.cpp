#include "moments/accumulator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using adaact::LayerMap;
using adaact::LayerUse;
using adaact::MomentAccumulator;
using adaact::NamedTensors;

TEST(MomentAccumulator, PassesWithoutAStepDoNotGrowIt) {
  const auto weight = torch::randn({3, 4});
  const auto bias = torch::randn({3});
  MomentAccumulator accumulator(
      LayerMap(NamedTensors{{"weight", weight}, {"bias", bias}}),
      [](const LayerUse& use, const torch::Tensor& input) {
        return adaact::second_moment(input, use.geometry);
      },
      nullptr);
  LayerUse use;
  use.row_end = 3;
  use.bias = 1;
  for (int pass = 0; pass < 1000; ++pass) accumulator.on_input(use, torch::ones({2, 4}));
  const auto pending = accumulator.take();
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].moment.count, 2000);
  EXPECT_EQ(pending[0].biases, std::vector<std::size_t>{1});
}

}  // namespace
