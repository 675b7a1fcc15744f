#include "experiments/shelf/run_key.h"

#include <gtest/gtest.h>

#include "experiments/paper/paper_runs.h"

namespace {

using adaact::folder_name;
using adaact::key_of;
using adaact::paper_run;
using adaact::PlannedMeasurement;
using adaact::PlannedRun;
using adaact::RunConfig;

RunConfig example() { return paper_run("foof", "resnet20", "cifar10", 3); }

TEST(RunKey, TheMachineIsNoPartOfIt) {
  auto elsewhere = example();
  elsewhere.device = "cuda:7";  // that is not there
  elsewhere.precision = "bf16";
  elsewhere.memory_format = "channels-last";
  elsewhere.deterministic = true;
  elsewhere.threads = 16;
  elsewhere.data_dir = "/no/such/folder";
  EXPECT_EQ(key_of(elsewhere), key_of(example()));
}

TEST(RunKey, WhateverIsComputedIs) {
  auto with_other_option = example();
  with_other_option.optimizer_options = R"({"lr": 0.06, "damping": 1})";
  EXPECT_NE(key_of(with_other_option), key_of(example()));
  auto of_other_seed = example();
  of_other_seed.seed = 4;
  EXPECT_NE(key_of(of_other_seed), key_of(example()));
  auto without_batchnorm = example();
  without_batchnorm.batchnorm = false;
  EXPECT_NE(key_of(without_batchnorm), key_of(example()));
}

TEST(RunKey, FieldsThatCameLaterChangeNoKeyUnlessTheySaySomethingNew) {
  auto resolved = example();
  resolved.resolve();
  EXPECT_EQ(resolved.flip, "on");
  EXPECT_EQ(key_of(resolved), key_of(example()));
  EXPECT_EQ(key_of(example()).find("flip"), std::string::npos);
  EXPECT_EQ(key_of(example()).find("validation"), std::string::npos);
  auto without_flip = example();
  without_flip.flip = "off";
  EXPECT_NE(key_of(without_flip), key_of(example()));
  auto split = example();
  split.validation = 0.1;
  EXPECT_NE(key_of(split), key_of(example()));
  auto digits = example();
  digits.dataset = "mnist";
  auto digits_as_before = digits;
  digits_as_before.flip = "on";
  EXPECT_NE(key_of(digits), key_of(digits_as_before));
  EXPECT_EQ(key_of(example()).find("patience"), std::string::npos);
  auto patient = example();
  patient.patience = 5;
  EXPECT_NE(key_of(patient), key_of(example()));
  auto of_authors = example();  // of FOOF
  of_authors.optimizer_options = R"({"scale": "authors"})";
  EXPECT_NE(key_of(of_authors), key_of(example()));
}

TEST(RunKey, TheRecipeOfImageNetIsPartOfItWhereItIsUsed) {
  const auto without_augmentation = [] {
    auto config = example();
    config.augment = false;
    return config;
  };
  auto resolved = without_augmentation();
  resolved.resolve();
  EXPECT_EQ(key_of(resolved), key_of(without_augmentation()));
  for (const char* field :
       {"crop", "rand_augment", "erase", "mixup", "cutmix", "loss", "ema", "min_lr", "warmup_lr"}) {
    EXPECT_EQ(key_of(example()).find(field), std::string::npos) << field;
  }
  const auto changes = [](auto&& change) {
    auto config = example();
    change(config);
    return key_of(config) != key_of(example());
  };
  EXPECT_TRUE(changes([](auto& c) { c.crop = "resized"; }));
  EXPECT_TRUE(changes([](auto& c) { c.crop = "none"; }));
  EXPECT_TRUE(changes([](auto& c) { c.rand_augment = "rand-m7-inc1"; }));
  EXPECT_TRUE(changes([](auto& c) { c.erase = 0.25; }));
  EXPECT_TRUE(changes([](auto& c) { c.mixup = 0.1; }));
  EXPECT_TRUE(changes([](auto& c) { c.cutmix = 1.0; }));
  EXPECT_TRUE(changes([](auto& c) { c.loss = "bce"; }));
  EXPECT_TRUE(changes([](auto& c) { c.ema = 0.99; }));
  EXPECT_TRUE(changes([](auto& c) { c.min_lr = 0.01; }));
  EXPECT_TRUE(changes([](auto& c) { c.warmup_lr = 0.01; }));
}

TEST(RunKey, OfAnySeedIsThatOfTheSetting) {
  auto of_other_seed = example();
  of_other_seed.seed = 4;
  EXPECT_EQ(key_of_any_seed(of_other_seed), key_of_any_seed(example()));
  of_other_seed.batchnorm = false;
  EXPECT_NE(key_of_any_seed(of_other_seed), key_of_any_seed(example()));
}

TEST(RunKey, AnOptionThatHasItsDefaultMayBeLeftOut) {
  RunConfig short_form;
  short_form.optimizer = "adam";
  short_form.optimizer_options = R"({"lr": 0.001})";
  auto whole_form = short_form;
  whole_form.optimizer_options = R"({"betas": [0.9, 0.999], "lr": 1e-3, "eps": 1e-08})";
  EXPECT_EQ(key_of(short_form), key_of(whole_form));
}

TEST(RunKey, OneIsOnePointZero) {
  auto whole = example();
  whole.optimizer_options = R"({"damping": 1})";
  auto real = example();
  real.optimizer_options = R"({"damping": 1.0})";
  EXPECT_EQ(key_of(whole), key_of(real));
}

TEST(RunKey, ARunThatWasWrittenAndReadIsTheSame) {
  auto resolved = example();
  resolved.resolve();
  const auto read = RunConfig::from_json(resolved.to_json(), "test");
  EXPECT_EQ(key_of(read), key_of(example()));
}

// If one of these changes, an unfinished run begins anew in another folder. Finished ones are still
// found: by their keys, not by their names.
TEST(RunKey, FoldersHaveNamesThatLast) {
  PlannedRun run{"FOOF", example(), false};
  EXPECT_EQ(folder_name(run), "cifar10-resnet20-foof-seed3-0822900e");
  EXPECT_EQ(adaact::kept_path(run), "cifar10/resnet20/foof/seed3-0822900e");
  run.activation_variances = true;
  EXPECT_EQ(folder_name(run), "cifar10-resnet20-foof-seed3-0822900e-variances");
  EXPECT_EQ(adaact::kept_path(run), "cifar10/resnet20/foof/seed3-0822900e-variances");
  PlannedMeasurement measurement;
  measurement.series = "p = 0.25, η/√v̂";
  measurement.setting = {{"steps", 10}, {"dataset", "synthetic"}};
  EXPECT_EQ(folder_name(measurement), "p-0-25-v-fd06f63c");
}

TEST(RunKey, OfAMeasurementTheOrderOfItsSettingDoesNotMatter) {
  PlannedMeasurement one;
  one.setting = {{"steps", 10}, {"dataset", "synthetic"}};
  PlannedMeasurement other;
  other.setting = {{"dataset", "synthetic"}, {"steps", 10}};
  EXPECT_EQ(key_of(one), key_of(other));
  other.of_run = PlannedRun{"AdaAct", example(), false};
  EXPECT_NE(key_of(one), key_of(other));
}

}  // namespace
