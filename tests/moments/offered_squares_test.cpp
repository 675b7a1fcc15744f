#include "moments/offered_squares.h"

#include <memory>
#include <thread>
#include <vector>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using adaact::LayerMap;
using adaact::LayerUse;
using adaact::NamedTensors;
using adaact::offer_squares;
using adaact::offered_squares;
using adaact::squares_are_wanted;
using adaact::still_to_read;
using adaact::StillToRead;

torch::Tensor squares_of(const torch::Tensor& rows) {
  return rows.square().reshape({-1, rows.size(-1)}).sum(0, /*keepdim=*/true);
}

TEST(OfferedSquares, AreThoseOfTheTensorThatWasWritten) {
  const auto written = torch::randn({2, 3, 4});
  const auto parts = squares_of(written);
  offer_squares(written, parts);
  EXPECT_TRUE(offered_squares(written).is_same(parts));
  // As an observer shows it.
  EXPECT_TRUE(offered_squares(written.detach()).is_same(parts));
  EXPECT_TRUE(offered_squares(written.view({2, 3, 4})).is_same(parts));
}

TEST(OfferedSquares, AreNotThoseOfAnotherViewOfItsMemory) {
  const auto written = torch::randn({4, 4});
  offer_squares(written, squares_of(written));
  EXPECT_FALSE(offered_squares(written.narrow(0, 0, 2)).defined());
  EXPECT_FALSE(offered_squares(written.narrow(0, 2, 2)).defined());
  EXPECT_FALSE(offered_squares(written.t()).defined());
  EXPECT_FALSE(offered_squares(written.view({2, 2, 4})).defined());
  EXPECT_FALSE(offered_squares(written.clone()).defined());
}

TEST(OfferedSquares, AreForgottenOnceTheTensorIsChanged) {
  const auto written = torch::randn({3, 4});
  offer_squares(written, squares_of(written));
  written.narrow(1, 0, 1).mul_(2);
  EXPECT_FALSE(offered_squares(written).defined());
  const auto anew = squares_of(written);
  offer_squares(written, anew);
  EXPECT_TRUE(offered_squares(written).is_same(anew));
}

TEST(OfferedSquares, AreNotThoseOfALaterTensorInTheSameMemory) {
  std::vector<float> memory(12, 1.0F);
  {
    const auto written = torch::from_blob(memory.data(), {3, 4});
    offer_squares(written, squares_of(written));
    EXPECT_TRUE(offered_squares(written).defined());
  }
  EXPECT_FALSE(offered_squares(torch::from_blob(memory.data(), {3, 4})).defined());
}

TEST(OfferedSquares, AreLetGoOfWithTheTensor) {
  auto written = torch::randn({3, 4});
  const auto parts = squares_of(written);
  const auto holders = parts.use_count();
  offer_squares(written, parts);
  EXPECT_EQ(parts.use_count(), holders + 1);
  written.reset();
  const auto next = torch::randn({3, 4});
  offer_squares(next, squares_of(next));
  EXPECT_EQ(parts.use_count(), holders);
}

TEST(OfferedSquares, OnlyTheLastFewAreRemembered) {
  std::vector<torch::Tensor> written;
  for (int i = 0; i < 40; ++i) {
    written.push_back(torch::randn({3, 4}));
    offer_squares(written.back(), squares_of(written.back()));
  }
  EXPECT_FALSE(offered_squares(written.front()).defined());
  EXPECT_TRUE(offered_squares(written[38]).defined());
  EXPECT_TRUE(offered_squares(written[39]).defined());
}

TEST(OfferedSquares, AreTheirOwnThreads) {
  const auto written = torch::randn({3, 4});
  offer_squares(written, squares_of(written));
  bool found = true;
  std::thread([&] { found = offered_squares(written).defined(); }).join();
  EXPECT_FALSE(found);
}

class SquareListener : public adaact::Listener {
 public:
  explicit SquareListener(bool takes_squares) : takes_squares_(takes_squares) {}
  void on_input(const LayerUse& /*use*/, const torch::Tensor& /*input*/) override {}
  bool sums_squares() const override { return takes_squares_; }

 private:
  bool takes_squares_;
};

TEST(OfferedSquares, AreWantedWhereAnObserverWouldUseThem) {
  const auto weight = torch::randn({3, 4}).requires_grad_();
  const auto other = torch::randn({3, 4}).requires_grad_();
  EXPECT_FALSE(squares_are_wanted(weight));
  {
    const adaact::Observer observer(LayerMap(NamedTensors{{"weight", weight}}),
                                    std::make_shared<SquareListener>(true));
    EXPECT_TRUE(squares_are_wanted(weight));
    EXPECT_FALSE(squares_are_wanted(other));
    {
      const torch::NoGradGuard no_grad;
      EXPECT_FALSE(squares_are_wanted(weight));
    }
    {
      const auto pause = observer.pause();
      EXPECT_FALSE(squares_are_wanted(weight));
    }
    EXPECT_TRUE(squares_are_wanted(weight));
  }
  EXPECT_FALSE(squares_are_wanted(weight));
  const adaact::Observer observer(LayerMap(NamedTensors{{"weight", weight}}),
                                  std::make_shared<SquareListener>(false));
  EXPECT_FALSE(squares_are_wanted(weight));
}

TEST(OfferedSquares, AreWantedByAdaActAndNotBySgd) {
  torch::nn::Linear layer(4, 3);
  {
    const auto sgd = adaact::make_optimizer("sgd", *layer, R"({"lr": 0.1})");
    EXPECT_FALSE(squares_are_wanted(layer->weight));
  }
  const adaact::AdaAct optimizer(*layer);
  EXPECT_TRUE(squares_are_wanted(layer->weight));
  EXPECT_TRUE(squares_are_wanted(layer->bias));
  const auto pause = optimizer.pause_observation();
  EXPECT_FALSE(squares_are_wanted(layer->weight));
}

TEST(OfferedSquares, SpareWhatTheLayerSeesAlike) {
  const auto convolution = [](std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                              std::int64_t groups) {
    return adaact::Geometry::convolution({kernel, kernel}, {stride}, {padding}, {1}, groups);
  };
  const auto images = torch::ones({2, 4, 5, 6}).contiguous(torch::MemoryFormat::ChannelsLast);
  EXPECT_EQ(still_to_read(torch::ones({5, 4}), adaact::Geometry::linear()), StillToRead::Nothing);
  EXPECT_EQ(still_to_read(images, convolution(1, 1, 0, 1)), StillToRead::Nothing);
  EXPECT_EQ(still_to_read(images, convolution(3, 1, 1, 1)), StillToRead::Border);
  EXPECT_EQ(still_to_read(images, convolution(1, 2, 0, 1)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images, convolution(1, 1, 1, 1)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images, convolution(3, 2, 1, 1)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images, convolution(3, 1, 0, 1)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images, convolution(3, 1, 1, 2)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images.contiguous(), convolution(3, 1, 1, 1)), StillToRead::Everything);
  EXPECT_EQ(still_to_read(images.narrow(2, 0, 1), convolution(3, 1, 1, 1)),
            StillToRead::Everything);
}

/// Squares are summed over channels: the last dimension of rows, the second of images.
TEST(OfferedSquares, AreOfNoUseToALayerWithOtherChannels) {
  const auto of_signals = adaact::Geometry::convolution({1}, {1}, {0}, {1}, 1);
  EXPECT_EQ(still_to_read(torch::ones({2, 4, 4}), of_signals), StillToRead::Everything);
  EXPECT_EQ(still_to_read(torch::ones({2, 4, 5, 4}), adaact::Geometry::linear()),
            StillToRead::Everything);
}

}  // namespace
