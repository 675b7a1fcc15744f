#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/paper/catalog.h"
#include "experiments/paper/embedded_configs.h"
#include "support/errors.h"

namespace {

using adaact::ExperimentForm;
using adaact::paper_optimizers;
using adaact::paper_options;
using adaact::paper_run;
using adaact::paper_setting;
using adaact::testing::contains;
using adaact::testing::error_of;
using nlohmann::json;

ExperimentForm quick_form() {
  ExperimentForm form;
  form.quick = true;
  return form;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PaperRuns, TheFilesOfConfigsAreBuiltInAsTheyAre) {
  std::map<std::string, std::string> configs;
  for (const auto& entry : std::filesystem::directory_iterator(ADAACT_CONFIGS_DIR)) {
    configs[entry.path().stem().string()] = text_of(entry.path());
  }
  EXPECT_EQ(adaact::embedded_configs(), configs);
}

TEST(PaperRuns, HaveTheSettingsOfTheirDataSet) {
  const auto options = json::parse(paper_options("kfac", "cifar100"));
  EXPECT_EQ(options.at("damping"), 10);
  EXPECT_EQ(options, json::parse(paper_setting("kfac", "cifar100").options));
  EXPECT_EQ(json::parse(paper_options("kfac", "cifar10")).at("damping"), 1);
}

TEST(PaperRuns, OfImageNetHaveTheSettingsOfTheirTable) {
  const auto vit = adaact::experiment_named("table-imagenet-vit").plan({}).runs.front().config;
  EXPECT_EQ(json::parse(vit.optimizer_options).at("weight_decay"), 2e-7);
  EXPECT_FALSE(vit.decay_vectors);
  const auto resnet =
      adaact::experiment_named("table-imagenet-resnet").plan({}).runs.front().config;
  EXPECT_EQ(json::parse(resnet.optimizer_options).at("weight_decay"), 1e-4);
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
    for (const auto& run : plan.runs) {
      const char* data = plan.wanted_data.empty() ? "fashion-mnist" : "image-folder";
      EXPECT_EQ(run.config.dataset, data) << experiment->name();
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
