#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"

#include <cmath>

#include <adaact/optim/registry.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/paper/catalog.h"
#include "support/errors.h"

namespace {

using adaact::ExperimentForm;
using adaact::OptimizerConfig;
using adaact::paper_optimizers;
using adaact::paper_options;
using adaact::paper_run;
using adaact::testing::contains;
using adaact::testing::error_of;
using nlohmann::json;

ExperimentForm quick_form() {
  ExperimentForm form;
  form.quick = true;
  return form;
}

TEST(PaperRuns, HaveTheSettingsOfConfigs) {
  for (const auto& optimizer : paper_optimizers()) {
    for (const std::string dataset : {"cifar10", "cifar100"}) {
      const auto config =
          OptimizerConfig::read(ADAACT_CONFIGS_DIR "/" + optimizer + ".json", dataset);
      EXPECT_EQ(json::parse(paper_options(optimizer, dataset)), json::parse(config.options))
          << optimizer << " on " << dataset;
    }
  }
}

TEST(PaperRuns, OfAnotherDataSetHaveTheSettingsOfCifar10) {
  EXPECT_EQ(paper_options("kfac", "fashion-mnist"), paper_options("kfac", "cifar10"));
  EXPECT_NE(paper_options("kfac", "cifar100"), paper_options("kfac", "cifar10"));
}

TEST(PaperRuns, AnOptimizerThatThePaperDidNotTrainOnCifarIsAnError) {
  EXPECT_TRUE(contains(error_of([] { paper_options("lamb", "cifar10"); }), "'lamb'"));
}

TEST(PaperRuns, AreThoseOfThePaper) {
  const auto config = paper_run("sgd", "resnet20", "cifar10", 4);
  EXPECT_EQ(config.epochs, 200);
  EXPECT_EQ(config.batch_size, 128);
  EXPECT_EQ(config.schedule, "cosine");
  EXPECT_TRUE(config.augment);
  EXPECT_EQ(config.seed, 4U);
}

TEST(PaperRuns, GuessingIsRightOnceInAsManyClassesAsThereAre) {
  for (const char* dataset : {"cifar10", "fashion-mnist", "mnist", "synthetic"}) {
    EXPECT_DOUBLE_EQ(adaact::accuracy_of_guessing(dataset), 0.1) << dataset;
  }
  EXPECT_DOUBLE_EQ(adaact::accuracy_of_guessing("cifar100"), 0.01);
  EXPECT_TRUE(std::isnan(adaact::accuracy_of_guessing("image-folder"))) << "it may have any number";
}

TEST(PaperRuns, EveryExperimentPlansRunsThatCanBeTrained) {
  for (const auto* experiment : adaact::experiments()) {
    for (const auto& form : {ExperimentForm{}, quick_form()}) {
      for (auto run : experiment->plan(form).runs) {
        EXPECT_NO_THROW(run.config.resolve()) << experiment->name() << ", " << run.series;
      }
    }
  }
}

TEST(PaperRuns, AQuickExperimentIsSmall) {
  for (const auto* experiment : adaact::experiments()) {
    const auto plan = experiment->plan(quick_form());
    if (!plan.obstacle.empty()) continue;
    for (const auto& run : plan.runs) {
      EXPECT_EQ(run.config.dataset, "fashion-mnist") << experiment->name();
      EXPECT_GT(run.config.limit_train, 0) << experiment->name();
      EXPECT_LE(run.config.limit_train * run.config.epochs, 50'000) << experiment->name();
    }
  }
}

TEST(PaperRuns, AnExperimentIsFoundByItsName) {
  EXPECT_EQ(adaact::experiment_named("table-cifar").name(), "table-cifar");
  EXPECT_TRUE(contains(error_of([] { adaact::experiment_named("table-cifer"); }),
                       "did you mean 'table-cifar'?"));
}

}  // namespace
