#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::ExperimentForm;
using adaact::Finding;
using adaact::table_cifar;
using adaact::testing::as_in_the_paper;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::ended_after;
using adaact::testing::finding_about;
using adaact::testing::found_with;

TEST(TableCifar, PlansFiveSeedsOfEverything) {
  EXPECT_EQ(table_cifar().plan({}).runs.size(), 4U * 7U * 5U);
  ExperimentForm form;
  form.dataset = "cifar100";
  form.seeds = {7};
  EXPECT_EQ(table_cifar().plan(form).runs.size(), 2U * 7U);
  form.dataset = "fashion-mnist";
  EXPECT_EQ(table_cifar().plan(form).runs.size(), 2U * 7U);
  form.quick = true;
  EXPECT_EQ(table_cifar().plan(form).runs.size(), 7U);
}

TEST(TableCifar, AsJsonHasEveryCell) {
  const auto cells = table_cifar().to_json(found_with(table_cifar(), {{"sgd", {92.0, 93.0}}}));
  ASSERT_EQ(cells.size(), 28U);
  EXPECT_EQ(cells[0].at("optimizer"), "adaact");
  EXPECT_TRUE(cells[0].at("mean").is_null());
  EXPECT_TRUE(cells[0].at("seconds").is_null());
  EXPECT_TRUE(cells[0].at("seeds").empty());
  EXPECT_EQ(cells[0].at("paper").at("mean"), 92.49);
  const auto& sgd = cells[1];
  EXPECT_EQ(sgd.at("model"), "resnet20");
  EXPECT_DOUBLE_EQ(sgd.at("mean"), 92.5);
  EXPECT_DOUBLE_EQ(sgd.at("standard_error"), 0.5);
  EXPECT_EQ(sgd.at("seeds"), (std::vector<int>{0, 1}));
  EXPECT_EQ(sgd.at("seconds"), 100.0);
  EXPECT_EQ(sgd.at("paper").at("standard_error"), 0.21);
}

TEST(TableCifar, CountsRunsAndSeedsWhereASeedWasRepeated) {
  auto found = found_with(table_cifar(), {{"sgd", {92.0, 93.0}}});
  for (const auto& run : found.runs) {
    if (!run.history || run.planned.config.seed != 1) continue;
    auto repeated = run;
    repeated.history = adaact::testing::history_of(run.planned.config, 94.0);
    found.runs.push_back(std::move(repeated));
    break;
  }
  const auto sgd = table_cifar().to_json(found).at(1);
  EXPECT_EQ(sgd.at("seeds"), (std::vector<int>{0, 1}));
  EXPECT_EQ(sgd.at("runs"), 3);
  EXPECT_DOUBLE_EQ(sgd.at("mean"), 93.0) << "of all runs";
  EXPECT_TRUE(contains(drawn(table_cifar(), found), "3 runs of 2 seeds"));
}

TEST(TableCifar, OfAnotherDataSetHasNoNumbersOfThePaper) {
  ExperimentForm form;
  form.dataset = "fashion-mnist";
  const auto found = found_with(table_cifar(), {{"sgd", {92.0}}}, form);
  EXPECT_TRUE(table_cifar().to_json(found)[1].at("paper").is_null());
  EXPECT_TRUE(table_cifar().findings(found).empty());
}

TEST(TableCifar, DrawsEmptyCellsToo) {
  const auto html = drawn(table_cifar(), found_with(table_cifar(), {{"sgd", {92.0, 93.0}}}));
  EXPECT_TRUE(contains(html,
                       ">92.50 ± 0.50<span class=\"state\">2 seeds</span>"
                       "<span class=\"state\">1 min 40 s</span></td>"));
  EXPECT_TRUE(contains(html, ">DenseNet-121 on CIFAR-100</th>"));
  EXPECT_TRUE(contains(html, "<td class=\"number\">–</td><td class=\"number\">79.91 ± 0.11</td>"));
}

TEST(TableCifar, SaysThatARunDiverged) {
  auto found = found_with(table_cifar(), {{"sgd", {92.0}}, {"adam", {92.0}}});
  for (auto& run : found.runs) {
    if (run.history && run.planned.config.optimizer == "sgd") run.history = ended_after({});
  }
  EXPECT_TRUE(contains(drawn(table_cifar(), found),
                       ">10.00<span class=\"state\">1 seed, diverged in epoch 1</span></td>"));
  const auto cells = table_cifar().to_json(found);
  EXPECT_DOUBLE_EQ(cells[1].at("mean"), 10.0);
  EXPECT_EQ(cells[1].at("diverged").dump(), R"([{"seed":0,"epoch":1}])");
  EXPECT_TRUE(cells[1].at("seconds").is_null());
  EXPECT_TRUE(cells[2].at("diverged").empty());
  const auto finding = finding_about("SGD, ResNet-20", table_cifar().findings(found));
  EXPECT_EQ(finding.verdict, Finding::Verdict::Disagrees);
  EXPECT_EQ(finding.measured, "10.00 % (1 seed, diverged in epoch 1)");
}

TEST(TableCifar, AgreesWhereItIsAsInThePaper) {
  const auto findings = table_cifar().findings(found_with(table_cifar(), as_in_the_paper(3)));
  EXPECT_EQ(findings.size(), 10U);  // seven cells, the order and two claims
  for (const auto& finding : findings) {
    EXPECT_EQ(finding.verdict, Finding::Verdict::Agrees) << finding.claim << finding.measured;
  }
}

TEST(TableCifar, NamesWhatIsTheOtherWayRound) {
  auto accuracies = as_in_the_paper(3);
  accuracies["adamw"] = {94.0, 94.1, 94.2};
  const auto findings = table_cifar().findings(found_with(table_cifar(), accuracies));
  EXPECT_EQ(finding_about("AdamW, ResNet-20", findings).verdict, Finding::Verdict::Disagrees);
  const auto& order = finding_about("from the best", findings);
  EXPECT_EQ(order.verdict, Finding::Verdict::Disagrees);
  EXPECT_TRUE(contains(order.measured, "AdamW, KFAC, SGD, AdaAct"));
  EXPECT_TRUE(contains(order.measured, "AdaAct and AdamW"));
  EXPECT_EQ(order.measured.find("AdaAct and SGD"), std::string::npos);
  EXPECT_EQ(finding_about("end lower", findings).verdict, Finding::Verdict::Disagrees);
  EXPECT_EQ(finding_about("similar to SGD's", findings).verdict, Finding::Verdict::Agrees);
}

TEST(TableCifar, NamesPairsThatAreTooCloseToCall) {
  auto accuracies = as_in_the_paper(3);
  accuracies["kfac"] = {92.4, 92.7, 93.0};  // SGD's mean
  const auto findings = table_cifar().findings(found_with(table_cifar(), accuracies));
  const auto& order = finding_about("from the best", findings);
  EXPECT_EQ(order.verdict, Finding::Verdict::Agrees);
  EXPECT_TRUE(contains(order.measured, "too close to call: AdaAct and KFAC, SGD and KFAC"))
      << order.measured;
}

TEST(TableCifar, AdaptiveMethodsThatEndALittleLowerAreTooClose) {
  auto accuracies = as_in_the_paper(3);
  accuracies["adan"] = {91.4, 92.4, 93.3};  // lower in the mean
  const auto findings = table_cifar().findings(found_with(table_cifar(), accuracies));
  const auto& lower = finding_about("end lower", findings);
  EXPECT_EQ(lower.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(lower.measured, "AdaAct and Adan (0.13 points")) << lower.measured;
}

TEST(TableCifar, OfOneSeedHasNoVerdictOnOrders) {
  auto accuracies = as_in_the_paper(3);
  for (auto& [optimizer, values] : accuracies) values.resize(1);
  accuracies["adamw"] = {94.0};
  const auto findings = table_cifar().findings(found_with(table_cifar(), accuracies));
  const auto& order = finding_about("from the best", findings);
  EXPECT_EQ(order.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(order.measured, "fewer than three seeds of one or more: no verdict"));
  const auto& lower = finding_about("end lower", findings);
  EXPECT_EQ(lower.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(lower.measured,
                       "AdamW: 94.00 %; the lowest of these, AdaAct: 92.40 %. One "
                       "seed each: no verdict."));
}

TEST(TableCifar, IsOpenWhereRunsAreMissing) {
  const auto findings = table_cifar().findings(
      found_with(table_cifar(), {{"adaact", {92.5}}, {"sgd", {92.7}}, {"adam", {91.4}}}));
  EXPECT_EQ(finding_about("from the best", findings).verdict, Finding::Verdict::Open);
  EXPECT_EQ(finding_about("end lower", findings).verdict, Finding::Verdict::Open);
  EXPECT_EQ(finding_about("similar to SGD's", findings).verdict, Finding::Verdict::Agrees);
}

}  // namespace
