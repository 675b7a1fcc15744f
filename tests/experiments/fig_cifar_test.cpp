#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"

namespace {

using adaact::ExperimentForm;
using adaact::fig_cifar;
using adaact::Finding;
using adaact::Found;
using adaact::testing::as_in_the_paper;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::ended_after;
using adaact::testing::finding_about;
using adaact::testing::found_with;

ExperimentForm form_of_seeds(const std::vector<std::uint64_t>& seeds) {
  ExperimentForm form;
  form.seeds = seeds;
  return form;
}

TEST(FigCifar, DrawsThePairsThatHaveRuns) {
  const auto html = drawn(fig_cifar(), found_with(fig_cifar(), as_in_the_paper(3)));
  EXPECT_TRUE(contains(html, "<h2>ResNet-20 on CIFAR-10</h2>"));
  EXPECT_TRUE(contains(html, "cifar10_resnet20_seconds.png"));
  EXPECT_EQ(html.find("DenseNet"), std::string::npos);
}

TEST(FigCifar, AveragesSeeds) {
  const auto found = found_with(fig_cifar(), {{"sgd", {92.0, 93.0}}}, form_of_seeds({0, 1}));
  const auto cells = fig_cifar().to_json(found);
  EXPECT_TRUE(cells[0].at("test_top1").empty());
  EXPECT_EQ(cells[1].at("seeds").size(), 2U);
  EXPECT_DOUBLE_EQ(cells[1].at("test_top1").back(), 0.925);
  EXPECT_EQ(cells[1].at("seconds").size(), 20U);
}

TEST(FigCifar, TakesTheSecondsOfTheFastestRun) {
  auto found = found_with(fig_cifar(), {{"sgd", {92.0, 92.0, 92.0}}}, form_of_seeds({0, 1, 2}));
  found.runs[3].history->epochs.back().seconds = 900.0;  // it shared its machine
  EXPECT_DOUBLE_EQ(fig_cifar().to_json(found)[1].at("seconds").back(), 100.0);
}

TEST(FigCifar, ComparesBeginningsBeyondTheNoiseOfSeeds) {
  const auto beginning = [](const adaact::testing::Accuracies& accuracies,
                            const ExperimentForm& form) {
    return finding_about("ahead of",
                         fig_cifar().findings(found_with(fig_cifar(), accuracies, form)));
  };
  auto accuracies = as_in_the_paper(3);
  const auto later = beginning(accuracies, form_of_seeds({0, 1, 2}));
  EXPECT_EQ(later.verdict, Finding::Verdict::Disagrees) << later.measured;
  for (const char* optimizer : {"adam", "adamw", "adan"})
    accuracies[optimizer] = {94.0, 94.1, 94.2};
  EXPECT_EQ(beginning(accuracies, form_of_seeds({0, 1, 2})).verdict, Finding::Verdict::Agrees);
  const auto of_one = beginning(accuracies, form_of_seeds({0}));
  EXPECT_EQ(of_one.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(of_one.measured, "One seed each: no verdict."));
  for (const char* optimizer : {"adam", "adamw", "adan"})
    accuracies[optimizer] = {90.0, 93.0, 95.2};
  const auto close = beginning(accuracies, form_of_seeds({0, 1, 2}));
  EXPECT_EQ(close.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(close.measured, "Too close to call")) << close.measured;
}

/// A folder of a run that names the hardware.
class MadeUpMachine {
 public:
  explicit MadeUpMachine(const char* gpu)
      : MadeUpMachine(nlohmann::json{{"processor", "some processor"}, {"gpu", gpu}}) {}
  explicit MadeUpMachine(const nlohmann::json& environment) {
    std::ofstream(folder_.path() / "environment.json") << nlohmann::json::array({environment});
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  adaact::testing::TemporaryFolder folder_;
};

void carry_out_on(const MadeUpMachine& machine, Found& found) {
  for (auto& run : found.runs) {
    if (run.history) run.history->folder = machine.folder();
  }
}

void set_seconds(const std::string& optimizer, double seconds, Found& found) {
  for (auto& run : found.runs) {
    if (run.history && run.planned.config.optimizer == optimizer) {
      run.history->epochs.back().seconds = seconds;
    }
  }
}

TEST(FigCifar, ComparesTimesOfOneMachineOnly) {
  auto found = found_with(fig_cifar(), as_in_the_paper(3));
  const auto is_slowest = [&] {
    return finding_about("takes the longest", fig_cifar().findings(found));
  };
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(is_slowest().measured, "not known which machine"));
  const MadeUpMachine machine("GPU A");
  carry_out_on(machine, found);
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Disagrees);  // all take the same time
  set_seconds("kfac", 500.0, found);
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Agrees);
  const MadeUpMachine half_known(nlohmann::json{{"gpu", "GPU A"}});
  found.runs.front().history->folder = half_known.folder();
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(is_slowest().measured, "not known which machine"));
  const MadeUpMachine other("GPU B");
  auto& first = *found.runs.front().history;
  first.epochs.back().seconds = 50.0;  // the fastest of AdaAct's
  first.folder = other.folder();
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(is_slowest().measured, "different processors or GPUs"));
  first.folder = machine.folder();
  first.config.precision = "bf16";
  EXPECT_EQ(is_slowest().verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(is_slowest().measured, "different devices or precisions"));
}

TEST(FigCifar, ComparesNoTimesWhereARunDiverged) {
  const MadeUpMachine machine("GPU A");
  auto found = found_with(fig_cifar(), as_in_the_paper(3), form_of_seeds({0}));
  found.runs[1].history = ended_after({});  // SGD's only one, with ResNet-20 on CIFAR-10
  carry_out_on(machine, found);
  const auto finding = finding_about("takes the longest", fig_cifar().findings(found));
  EXPECT_EQ(finding.verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(finding.measured, "all runs of SGD diverged"));
  EXPECT_TRUE(contains(drawn(fig_cifar(), found), "SGD diverged in epoch 1."));
  EXPECT_EQ(fig_cifar().to_json(found)[1].at("diverged").size(), 1U);
}

TEST(FigCifar, ComparesAdaActsTimeWithAdansOnCifar100Only) {
  const MadeUpMachine machine("GPU A");
  auto on_cifar10 = found_with(fig_cifar(), as_in_the_paper(3));
  carry_out_on(machine, on_cifar10);
  EXPECT_THROW(finding_about("as long as Adan", fig_cifar().findings(on_cifar10)),
               std::runtime_error);
  auto found = found_with(fig_cifar(), as_in_the_paper(3), {}, "resnet34");
  carry_out_on(machine, found);
  const auto verdict_with = [&](double seconds) {
    set_seconds("adaact", seconds, found);
    return finding_about("as long as Adan", fig_cifar().findings(found)).verdict;
  };
  EXPECT_EQ(verdict_with(120.0), Finding::Verdict::Agrees);
  EXPECT_EQ(verdict_with(80.0), Finding::Verdict::Agrees);
  EXPECT_EQ(verdict_with(130.0), Finding::Verdict::Disagrees);
  EXPECT_EQ(verdict_with(70.0), Finding::Verdict::Disagrees) << "much less is not about as long";
}

}  // namespace
