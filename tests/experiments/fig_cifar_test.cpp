#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/catalog.h"
#include "experiments/made_up_cifar.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::ExperimentForm;
using adaact::fig_cifar;
using adaact::Finding;
using adaact::testing::as_in_the_paper;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::finding_about;
using adaact::testing::found_with;

TEST(FigCifar, DrawsThePairsThatHaveRuns) {
  const auto html = drawn(fig_cifar(), found_with(fig_cifar(), as_in_the_paper()));
  EXPECT_TRUE(contains(html, "<h2>ResNet-20 on CIFAR-10</h2>"));
  EXPECT_TRUE(contains(html, "cifar10_resnet20_seconds.png"));
  EXPECT_EQ(html.find("DenseNet"), std::string::npos);
}

TEST(FigCifar, AveragesSeeds) {
  ExperimentForm form;
  form.seeds = {0, 1};
  const auto found = found_with(fig_cifar(), {{"sgd", {92.0, 93.0}}}, form);
  const auto cells = fig_cifar().to_json(found);
  EXPECT_TRUE(cells[0].at("test_top1").empty());
  EXPECT_EQ(cells[1].at("seeds").size(), 2U);
  EXPECT_DOUBLE_EQ(cells[1].at("test_top1").back(), 0.925);
  EXPECT_EQ(cells[1].at("seconds").size(), 20U);
}

TEST(FigCifar, ComparesTimesOfOneMachineOnly) {
  auto found = found_with(fig_cifar(), as_in_the_paper());
  const auto is_slowest = [&] {
    return finding_about("takes the longest", fig_cifar().findings(found));
  };
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Disagrees);  // all take the same time
  for (auto& run : found.runs) {
    if (run.history && run.planned.config.optimizer == "kfac") {
      run.history->epochs.back().seconds = 500.0;
    }
  }
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Agrees);
  found.runs.front().history->config.precision = "bf16";
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Open);
}

}  // namespace
