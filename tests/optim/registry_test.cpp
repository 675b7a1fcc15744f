#include <filesystem>
#include <fstream>
#include <set>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/odd_files.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace {

using adaact::make_optimizer;
using adaact::OptimizerConfig;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::make_mlp;
using adaact::testing::TemporaryFolder;
using nlohmann::json;
namespace fs = std::filesystem;

TEST(Registry, KnowsTheOptimizersOfThePaper) {
  const auto names = adaact::optimizer_names();
  const std::vector<std::string> expected{"adaact", "adam", "adamw", "adan", "foof",
                                          "kfac",   "lamb", "sam",   "sgd"};
  EXPECT_EQ(names, expected);
}

TEST(Registry, LibTorchsOwnStayLibTorchsOwn) {
  auto model = make_mlp();
  EXPECT_NE(dynamic_cast<torch::optim::SGD*>(make_optimizer("sgd", *model).get()), nullptr);
  EXPECT_NE(dynamic_cast<torch::optim::Adam*>(make_optimizer("adam", *model).get()), nullptr);
  EXPECT_NE(dynamic_cast<torch::optim::AdamW*>(make_optimizer("adamw", *model).get()), nullptr);
}

TEST(Registry, AnUnknownNameListsTheKnown) {
  auto model = make_mlp();
  EXPECT_TRUE(contains(error_of([&] { make_optimizer("adma", *model); }),
                       "no optimizer 'adma'; there are: adaact, adam, adamw, adan, foof, kfac, "
                       "lamb, sam, sgd"));
}

TEST(Registry, OptionsReachTheOptimizer) {
  auto model = make_mlp();
  const auto optimizer = make_optimizer(
      "kfac", *model, R"({"lr": 0.5, "kl_clip": null, "scale": "authors", "inverse": "cholesky"})");
  const auto& options =
      static_cast<const adaact::KfacOptions&>(optimizer->param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.5);
  EXPECT_TRUE(std::isinf(options.kl_clip()));
  EXPECT_EQ(options.scale(), adaact::KfacScale::Authors);
  EXPECT_EQ(options.inverse(), adaact::InverseMethod::Cholesky);
  EXPECT_EQ(options.damping(), adaact::KfacOptions().damping());
}

TEST(Registry, SamHandsOptionsToItsBase) {
  auto model = make_mlp();
  const auto optimizer = make_optimizer(
      "sam", *model, R"({"base": "adan", "rho": 0.2, "lr": 0.5, "proximal": false})");
  auto& sam = dynamic_cast<adaact::Sam&>(*optimizer);
  EXPECT_EQ(static_cast<const adaact::SamOptions&>(sam.param_groups()[0].options()).rho(), 0.2);
  const auto& base =
      static_cast<const adaact::AdanOptions&>(sam.base().param_groups()[0].options());
  EXPECT_EQ(base.lr(), 0.5);
  EXPECT_FALSE(base.proximal());
}

TEST(Registry, BadOptionsOfSamAreErrors) {
  auto model = make_mlp();
  const auto error = [&](const std::string& options) {
    return error_of([&] { make_optimizer("sam", *model, options); });
  };
  EXPECT_TRUE(contains(error(R"({"base": "sam"})"), "base is \"sam\", expected one of: adaact"));
  EXPECT_TRUE(contains(error(R"({"base": 3})"), "base is 3"));
  EXPECT_TRUE(
      contains(error(R"({"betas": [0.9, 0.9]})"), "Sam over sgd: there is no option 'betas'"));
  EXPECT_TRUE(contains(error(R"({"rho": -1})"), "rho is -1"));
  EXPECT_TRUE(contains(error_of([] { adaact::default_options("sam", "sam"); }),
                       "base is \"sam\", expected one of: adaact"));
}

TEST(Registry, BadOptionsSayWhatWasExpected) {
  auto model = make_mlp();
  const auto error = [&](const char* name, const std::string& options) {
    return error_of([&] { make_optimizer(name, *model, options); });
  };
  EXPECT_TRUE(contains(error("adan", "{"), "no JSON"));
  EXPECT_TRUE(contains(error("adan", adaact::testing::deep_json()), "it is nested deeper than"));
  EXPECT_TRUE(contains(error("adan", "[1]"), "expected a JSON object"));
  EXPECT_TRUE(contains(error("adan", R"({"betas": [0.9]})"), "betas is [0.9], expected 3 numbers"));
  EXPECT_TRUE(
      contains(error("adan", R"({"betas": [0.9, 1, 0.9]})"), "betas[1] is 1, expected [0, 1)"));
  EXPECT_TRUE(
      contains(error("adan", R"({"proximal": 1})"), "proximal is 1, expected true or false"));
  EXPECT_TRUE(contains(error("lamb", R"({"max_grad_norm": 0})"),
                       "max_grad_norm is 0, expected a number > 0 or infinity (null in JSON)"));
  EXPECT_TRUE(contains(error("foof", R"({"inverse_period": 2.5})"),
                       "inverse_period is 2.5, expected an integer"));
  EXPECT_TRUE(contains(error("foof", R"({"inverse": "lu"})"),
                       "inverse is \"lu\", expected one of: cholesky, eigen"));
  EXPECT_TRUE(
      contains(error("kfac", R"({"damping": 0})"), "damping is 0, expected a number ≥ 1e-30"));
  EXPECT_TRUE(contains(error("sgd", R"({"nesterov": true, "momentum": 0})"), "nesterov needs"));
  EXPECT_TRUE(contains(error("sgd", R"({"lr": null})"), "lr is inf"));
}

TEST(Registry, NamedStateNeedsNames) {
  auto model = make_mlp();
  torch::optim::RMSprop optimizer(model->parameters());
  EXPECT_TRUE(contains(error_of([&] { adaact::named_state(optimizer); }), "has no names"));
}

TEST(Registry, ParametersMustBelongToTheModel) {
  auto model = make_mlp();
  auto other = make_mlp();
  const std::vector<torch::optim::OptimizerParamGroup> groups{
      torch::optim::OptimizerParamGroup(other->parameters())};
  EXPECT_TRUE(
      contains(error_of([&] { adaact::SGD(*model, groups, torch::optim::SGDOptions(0.1)); }),
               "SGD: a parameter of shape [8, 6] in a group is no parameter of the model"));
}

TEST(Registry, GroupsOfAModelThatIsNoModuleHaveOptionsOfTheirOwn) {
  const auto weight = torch::ones({2, 3}).requires_grad_();
  const auto bias = torch::ones({2}).requires_grad_();
  const adaact::LayerMap model(adaact::NamedTensors{{"fc.weight", weight}, {"fc.bias", bias}});
  for (const auto& name : adaact::optimizer_names()) {
    const auto optimizer = make_optimizer(
        name, model, {{{weight}, "{}"}, {{bias}, R"({"lr": 0.25})"}}, R"({"lr": 0.5})");
    ASSERT_EQ(optimizer->param_groups().size(), 2U) << name;
    EXPECT_EQ(json::parse(adaact::group_options(*optimizer, 0))["lr"], 0.5) << name;
    EXPECT_EQ(json::parse(adaact::group_options(*optimizer, 1))["lr"], 0.25) << name;
  }
}

TEST(Registry, GroupsAreAddedWithTheDefaultsOfTheOptimizer) {
  auto model = make_mlp();
  const auto parameters = model->parameters();
  for (const auto& name : adaact::optimizer_names()) {
    const auto optimizer = make_optimizer(name, adaact::LayerMap(*model), {{{parameters[0]}, "{}"}},
                                          R"({"weight_decay": 0.125})");
    adaact::add_option_group(*optimizer, {{parameters[1]}, R"({"lr": 0.75})"});
    const auto added = json::parse(adaact::group_options(*optimizer, 1));
    EXPECT_EQ(added["lr"], 0.75) << name;
    EXPECT_EQ(added["weight_decay"], 0.125) << name;
  }
}

TEST(Registry, OptionsOfAGroupChangeTogetherOrNotAtAll) {
  auto model = make_mlp();
  for (const auto& name : adaact::optimizer_names()) {
    const auto optimizer = make_optimizer(name, *model);
    const auto before = adaact::group_options(*optimizer, 0);
    EXPECT_THROW(adaact::change_group_options(*optimizer, 0, R"({"lr": 0.5, "colour": 1})"),
                 c10::Error);
    EXPECT_EQ(adaact::group_options(*optimizer, 0), before) << name;
    adaact::change_group_options(*optimizer, 0, R"({"lr": 0.5, "non_finite_policy": "skip"})");
    auto expected = json::parse(before);
    expected["lr"] = 0.5;
    expected["non_finite_policy"] = "skip";
    EXPECT_EQ(json::parse(adaact::group_options(*optimizer, 0)), expected) << name;
  }
}

TEST(Registry, DescriptionsNameEveryOptionWithItsDefault) {
  for (const auto& name : adaact::optimizer_names()) {
    auto defaults = json::parse(adaact::default_options(name));
    defaults.erase("base");
    auto described = json::object();
    for (const auto& option : json::parse(adaact::describe_options(name))) {
      described[option["name"]] = option["default"];
      EXPECT_FALSE(option["expected"].get<std::string>().empty()) << name << option;
    }
    EXPECT_EQ(described, defaults) << name;
  }
}

// The settings in configs/.

const fs::path kConfigs = ADAACT_CONFIGS_DIR;

TEST(Configs, EveryOptimizerHasOneAndAllOfThemWork) {
  auto model = make_mlp();
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    const auto content = json::parse(std::ifstream(entry.path()));
    EXPECT_EQ(content.at("optimizer"), entry.path().stem().string());
    EXPECT_FALSE(content.at("source").get<std::string>().empty());
    for (const auto& [setting, options] : content.at("settings").items()) {
      make_optimizer(OptimizerConfig::read(entry.path(), setting), *model);
    }
    found.insert(entry.path().stem().string());
  }
  const auto names = adaact::optimizer_names();
  EXPECT_EQ(found, std::set<std::string>(names.begin(), names.end()));
}

TEST(Configs, CifarSettingsAreThePapers) {
  const auto setting = [](const std::string& optimizer, const char* name) {
    return json::parse(OptimizerConfig::read(kConfigs / (optimizer + ".json"), name).options);
  };
  EXPECT_EQ(setting("adaact", "cifar10").at("weight_decay"), 2e-3);
  EXPECT_EQ(setting("adan", "cifar100").at("lr"), 0.01);
  EXPECT_EQ(setting("kfac", "cifar10").at("damping"), 1);
  EXPECT_EQ(setting("kfac", "cifar100").at("damping"), 10);
  EXPECT_EQ(setting("kfac", "cifar10").at("scale"), "authors");
  EXPECT_EQ(setting("sgd", "cifar10").at("nesterov"), false);
  EXPECT_EQ(setting("sgd", "cifar100").at("nesterov"), true);
}

TEST(Configs, ASettingMaySayWhatDecays) {
  auto model = make_mlp();
  const auto groups = [&](const char* setting) {
    const auto config = OptimizerConfig::read(kConfigs / "adaact.json", setting);
    return make_optimizer(config, *model)->param_groups().size();
  };
  EXPECT_EQ(groups("cifar10"), 1U);
  EXPECT_EQ(groups("imagenet-vit"), 2U);
}

TEST(Configs, BadFilesAreErrors) {
  EXPECT_TRUE(contains(error_of([] { OptimizerConfig::read("no/such.json", "cifar10"); }),
                       "no/such.json cannot be opened"));
  const TemporaryFolder folder;
  const auto pipe = adaact::testing::make_pipe(folder.path() / "adan.json");
  EXPECT_TRUE(contains(error_of([&] { OptimizerConfig::read(pipe, "cifar10"); }), "is a pipe"));
  EXPECT_TRUE(contains(
      error_of([&] { OptimizerConfig::parse(adaact::testing::deep_json(), "cifar10", "deep"); }),
      "it is no JSON: it is nested deeper than 100 levels"));
  EXPECT_TRUE(contains(error_of([] { OptimizerConfig::read(kConfigs / "kfac.json", "mnist"); }),
                       "no setting 'mnist'; there are: cifar10, cifar100"));
  const auto path = folder.path() / "bad.json";
  std::ofstream(path) << "{]";
  EXPECT_TRUE(contains(error_of([&] { OptimizerConfig::read(path, "cifar10"); }),
                       "is no optimizer configuration"));
}

}  // namespace
