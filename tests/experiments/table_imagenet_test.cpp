#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/made_up_cifar.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/imagenet_recipe.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "train/run/run_parts.h"

namespace {

using adaact::ExperimentForm;
using adaact::Finding;
using adaact::table_imagenet_resnet;
using adaact::table_imagenet_vit;
using adaact::testing::contains;
using adaact::testing::drawn;
using adaact::testing::ended_after;
using adaact::testing::finding_about;
using adaact::testing::found_with;
using adaact::testing::nothing_found;

ExperimentForm quick_imagenet() {
  ExperimentForm form;
  form.quick = true;
  return form;
}

TEST(TableImageNet, TrainsWithTheRecipeOfThePaper) {
  const auto plan = table_imagenet_resnet().plan({});
  ASSERT_EQ(plan.runs.size(), 2U);
  EXPECT_EQ(plan.wanted_classes, 1000);
  auto resnet = plan.runs[0].config;
  EXPECT_EQ(resnet.model, "resnet50");
  EXPECT_EQ(resnet.batch_size * resnet.accumulation, 2048);
  resnet.resolve();
  EXPECT_EQ(resnet.resize_size, 235);
  const auto options = loader_options(resnet, 1, adaact::Split::Train);
  EXPECT_EQ(options.augment.crop_padding, 0);
  EXPECT_EQ(options.augment.flip_probability, 0.5);
  EXPECT_EQ(options.augment.resized_crop.value().smallest, 0.08);
  EXPECT_EQ(options.augment.resized_crop.value().largest, 1.0);
  EXPECT_EQ(options.augment.rand_augment.value().magnitude, 7.0);
  EXPECT_EQ(options.augment.erase_probability, 0.0);
  EXPECT_EQ(options.mix.mixup_alpha, 0.1);
  EXPECT_EQ(options.mix.cutmix_alpha, 1.0);
  EXPECT_FALSE(loader_options(resnet, 1, adaact::Split::Test).augment.resized_crop);
  EXPECT_FALSE(loader_options(resnet, 1, adaact::Split::Test).mix.any());

  auto vit = table_imagenet_vit().plan({}).runs.at(0).config;
  vit.resolve();
  EXPECT_EQ(vit.resize_size, 248);
  EXPECT_EQ(loader_options(vit, 1, adaact::Split::Train).augment.erase_probability, 0.25);
  EXPECT_EQ(loader_options(vit, 1, adaact::Split::Train).mix.mixup_alpha, 0.8);
}

TEST(TableImageNet, LearningRatesAreThoseOfThePaper) {
  const auto pi = std::acos(-1.0);
  auto vit = table_imagenet_vit().plan({}).runs.at(0).config;
  const auto schedule = build_schedule(vit, /*steps_per_epoch=*/3);
  for (const std::int64_t epoch : {0, 1, 4, 5, 6, 100, 149}) {
    const auto t = static_cast<double>(epoch);
    const auto expected =
        epoch < 5 ? 0.4 + 0.72 * t : 4e-4 + 0.5 * (4.0 - 4e-4) * (1.0 + std::cos(pi * t / 150.0));
    EXPECT_NEAR(4.0 * schedule(3 * epoch), expected, 1e-12) << epoch;
    EXPECT_EQ(schedule(3 * epoch + 2), schedule(3 * epoch)) << "a step of an epoch";
  }
  const auto resnet = build_schedule(table_imagenet_resnet().plan({}).runs.at(0).config, 3);
  EXPECT_NEAR(4.0 * resnet(3 * 50), 2.0, 1e-12);
}

TEST(TableImageNet, AQuickFormScalesTheRates) {
  for (const auto* experiment : {&table_imagenet_resnet(), &table_imagenet_vit()}) {
    const auto plan = experiment->plan(quick_imagenet());
    ASSERT_EQ(plan.runs.size(), 1U) << "the smallest model";
    EXPECT_EQ(plan.wanted_classes, 0) << "of any images";
    auto config = plan.runs[0].config;
    EXPECT_NO_THROW(config.resolve());
    const auto options = nlohmann::json::parse(config.optimizer_options);
    EXPECT_DOUBLE_EQ(options.at("lr"), 4.0 * 64 / 2048);
    EXPECT_EQ(config.rand_augment, experiment->plan({}).runs[0].config.rand_augment);
  }
}

TEST(TableImageNet, HoldsOursAgainstThePapers) {
  const auto& resnet = table_imagenet_resnet();
  auto found = found_with(resnet, {{"adaact", {77.2}}}, {}, "resnet50");
  EXPECT_EQ(finding_about("ResNet-50", resnet.findings(found)).verdict, Finding::Verdict::Agrees);
  EXPECT_EQ(resnet.findings(found).size(), 1U) << "of what was trained";
  EXPECT_TRUE(contains(drawn(resnet, found), ">77.20 %<"));
  found = found_with(resnet, {{"adaact", {76.9}}}, {}, "resnet50");
  EXPECT_EQ(finding_about("ResNet-50", resnet.findings(found)).verdict,
            Finding::Verdict::Disagrees);
  const auto cells = resnet.to_json(found);
  ASSERT_EQ(cells.size(), 12U);
  EXPECT_DOUBLE_EQ(cells[0].at("top1"), 76.9);
  EXPECT_EQ(cells[0].at("paper"), 77.6);
  EXPECT_TRUE(cells[1].at("top1").is_null());
  EXPECT_EQ(cells[11].at("paper"), 79.5);
}

TEST(TableImageNet, ARunThatDivergedHasNoAccuracy) {
  const auto& vit = table_imagenet_vit();
  auto found = nothing_found(vit);
  found.runs[0].history = ended_after({0.1, 0.2});
  found.runs[0].history->config.dataset = "image-folder";
  const auto finding = finding_about("ViT-S", vit.findings(found));
  EXPECT_EQ(finding.verdict, Finding::Verdict::Disagrees);
  EXPECT_EQ(finding.measured, "diverged in epoch 3");
  EXPECT_TRUE(contains(drawn(vit, found), "diverged in epoch 3"));
  EXPECT_TRUE(vit.to_json(found)[0].at("top1").is_null());
}

TEST(TableImageNet, WithoutRunsItSaysWhatWouldBeTrained) {
  const auto html = drawn(table_imagenet_vit(), nothing_found(table_imagenet_vit()));
  EXPECT_TRUE(contains(html, "73.80 %"));
  EXPECT_TRUE(contains(html, "rand-m7-mstd0.5-inc1"));
  EXPECT_TRUE(contains(html, "5 epochs of warm-up from 0.4"));
  EXPECT_TRUE(contains(html, "To be trained it needs --data-dir"));
}

}  // namespace
