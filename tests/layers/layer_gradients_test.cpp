// The plain layers, which every fused one is held against, against central differences.

#include <memory>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/shared_batch_statistics.h"
#include "support/drawn_layers.h"
#include "support/thread_ranks.h"

namespace {

using namespace adaact::testing;

TEST(PlainLayers, GradientsAreCentralDifferencesForDrawnShapes) {
  LayerDrawer drawer(torch::kCPU);
  for (const auto& layer : drawer.of_every_kind(40)) expect_slope(layer, drawer);
}

TEST(PlainLayers, BatchNormOverAllRanksHasTheGradientsOfCentralDifferences) {
  const auto alone = std::make_shared<ThreadRank>(std::make_shared<MeetingPlace>(1), 0, 1);
  const adaact::SharedBatchStatistics shared(alone);
  LayerDrawer drawer(torch::kCPU);
  for (int i = 0; i < 40; ++i) expect_slope(drawer.batch_norm(), drawer);
}

}  // namespace
