// `adaact reproduce` as a person uses it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "experiments/paper/catalog.h"
#include "experiments/shelf/run_key.h"
#include "support/errors.h"
#include "support/made_up_run.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::diverged_run;
using adaact::testing::MadeUpRun;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
using adaact::testing::write_run;
namespace fs = std::filesystem;

TEST(ReproduceCommand, ListsWhatThereIs) {
  const auto [code, printed] = ToolFolder().run({"reproduce", "--list"});
  EXPECT_EQ(code, 0);
  for (const char* name : {"fig-power", "table-cifar", "theory-convergence"}) {
    EXPECT_TRUE(contains(printed, name));
  }
  const auto as_json = ToolFolder().run({"reproduce", "--list", "--json"}).printed;
  const auto list = nlohmann::json::parse(as_json);
  EXPECT_EQ(list.size(), adaact::experiments().size());
  for (const auto& each : list) {
    for (const char* machine : {"two_cores", "h200"}) {
      EXPECT_EQ(std::string(each.at(machine)).rfind("about ", 0), 0U) << "all was timed: " << each;
    }
    EXPECT_EQ(each.at("obstacle"), "") << each;
    EXPECT_FALSE(contains(each.at("quick"), "h") || contains(each.at("quick"), "days")) << each;
  }
}

TEST(ReproduceCommand, NeedsAName) {
  EXPECT_EQ(ToolFolder().run({"reproduce"}).code, 2);
  const auto [code, printed] = ToolFolder().run({"reproduce", "fig-powr"});
  EXPECT_EQ(code, 2);
  EXPECT_TRUE(contains(printed, "did you mean 'fig-power'?"));
}

TEST(ReproduceCommand, RefusesWhatItCannotDoAndWhatHasNoEffect) {
  const ToolFolder folder;
  const auto from = folder.at("").string();
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--from", from, "--device", "cpu"}).code, 2);
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--from", from, "--image-work", "gpu"}).code, 2);
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--dataset", "cifar11"}).code, 2);
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--seeds", "1,1"}).code, 2);
}

/// Two classes of four images each, to train and to evaluate on.
void make_image_folder(const fs::path& folder) {
  using namespace adaact::testing;
  for (const std::string split : {"train", "val"}) {
    for (int i = 0; i < 8; ++i) {
      const auto name = std::to_string(i) + ".jpg";
      write_jpeg(folder / split / (i % 2 == 0 ? "cat" : "dog") / name, varied_image(70, 80 + i, 3));
    }
  }
}

TEST(ReproduceCommand, TablesOfImageNetSayWhatTheyNeed) {
  const ToolFolder folder;
  const auto out = folder.at("out").string();
  const auto without = folder.run({"reproduce", "table-imagenet-vit", "--out", out});
  EXPECT_EQ(without.code, 1);
  EXPECT_TRUE(contains(without.printed, "nothing is trained without --data-dir: ImageNet"));
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "table-imagenet-vit.html"), "73.80 %"));
  make_image_folder(folder.at("images"));
  const auto other = folder.run({"reproduce", "table-imagenet-vit", "--data-dir",
                                 folder.at("images").string(), "--out", out});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(contains(other.printed, "has 2 classes, expected 1000")) << other.printed;
}

TEST(ReproduceCommand, AQuickTableOfImageNetTakesAnyImages) {
  const ToolFolder folder;
  make_image_folder(folder.at("images"));
  const Words command{"reproduce",
                      "table-imagenet-vit",
                      "--quick",
                      "--data-dir",
                      folder.at("images").string(),
                      "--threads",
                      "1",
                      "--out",
                      folder.at("out").string()};
  const auto trained = folder.run(command);
  ASSERT_EQ(trained.code, 0) << trained.printed;
  EXPECT_TRUE(contains(trained.printed, "this is not the paper's setting"));
  const auto page = bytes_of(folder.at("out") / "table-imagenet-vit.html");
  EXPECT_TRUE(contains(page, "image_size 64 instead of 224"));
  const auto again = folder.run(command);
  EXPECT_EQ(again.code, 0);
  EXPECT_FALSE(contains(again.printed, "to do: ")) << "nothing is trained twice";
}

TEST(ReproduceCommand, DrawsWhatIsThere) {
  const ToolFolder folder;
  fs::create_directories(folder.at("results"));
  const Words command{"reproduce", "table-cifar",
                      "--from",    folder.at("results").string(),
                      "--out",     folder.at("out").string()};
  const auto [code, printed] = folder.run(command);
  EXPECT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, "table-cifar.html"));
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "table-cifar.html"), "0 of 140 runs"));
}

TEST(ReproduceCommand, CarriesOutKeepsAndFindsAgain) {
  const ToolFolder folder;
  const Words quick{"reproduce", "theory-convergence", "--quick"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), quick.begin(), quick.end());
    return folder.run(words);
  };
  const auto out = folder.at("out").string();
  const auto results = folder.at("results").string();
  const auto first = with({"--out", out, "--keep", results});
  ASSERT_EQ(first.code, 0) << first.printed;
  EXPECT_TRUE(contains(first.printed, "this is not the paper's setting"));
  EXPECT_TRUE(contains(first.printed, "1 of 5"));
  const auto cost = first.printed.find("to do: 5 measurements; about ");
  EXPECT_LT(cost, first.printed.find("1 of 5")) << first.printed;
  EXPECT_TRUE(contains(first.printed, " on two cores; "));

  const auto again = with({"--out", out});
  EXPECT_EQ(again.code, 0);
  EXPECT_FALSE(contains(again.printed, "1 of 5")) << "nothing is carried out twice";
  EXPECT_FALSE(contains(again.printed, "to do: "));
  const auto elsewhere =
      with({"--out", folder.at("new").string(), "--also", results, "--keep", results});
  EXPECT_EQ(elsewhere.code, 0);
  EXPECT_FALSE(contains(elsewhere.printed, "1 of 5")) << "nor what was kept";

  const auto drawn = with({"--from", results, "--out", folder.at("drawn").string()});
  EXPECT_EQ(drawn.code, 0);
  EXPECT_FALSE(contains(drawn.printed, "not there yet")) << "all of it was kept";
}

TEST(ReproduceCommand, TrainsAQuickFigure) {
  const ToolFolder folder;
  const Words command{"reproduce", "fig-bounded", "--quick",
                      "--dataset", "synthetic",   "--threads",
                      "1",         "--out",       folder.at("out").string()};
  const auto first = folder.run(command);
  ASSERT_EQ(first.code, 0) << first.printed;
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "fig-bounded.html"),
                       "This is not the paper&#39;s setting"))
      << bytes_of(folder.at("out") / "fig-bounded.html").substr(0, 3000);
  EXPECT_FALSE(contains(folder.run(command).printed, "1 of 1"));
}

TEST(ReproduceCommand, ARunThatDivergedIsDone) {
  const ToolFolder folder;
  adaact::ExperimentForm form;
  form.quick = true;
  form.dataset = "synthetic";
  fs::path diverged;
  for (const auto& planned : adaact::fig_no_batchnorm().plan(form).runs) {
    MadeUpRun run;
    run.config = planned.config;
    if (planned.series == "SGD without BN") {
      run = diverged_run(planned.config, 0);
      diverged = kept_path(planned);
    }
    write_run(folder.at("runs") / planned.series, run);
  }
  const auto reproduce = [&](Words words) {
    const Words quick{"reproduce", "fig-no-batchnorm", "--quick", "--dataset", "synthetic"};
    words.insert(words.begin(), quick.begin(), quick.end());
    return folder.run(words);
  };
  const auto out = folder.at("out").string();
  const auto results = folder.at("results").string();

  const auto drawn =
      reproduce({"--from", folder.at("runs").string(), "--out", out, "--keep", results});
  EXPECT_EQ(drawn.code, 0) << drawn.printed;
  EXPECT_TRUE(contains(drawn.printed, "-  diverged in epoch 1\n")) << drawn.printed;
  EXPECT_FALSE(contains(drawn.printed, "not there yet")) << "nothing is missing";
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "fig-no-batchnorm.html"), "diverged in epoch"));
  EXPECT_TRUE(contains(bytes_of(folder.at("results") / diverged / "metrics.jsonl"), "diverged"));

  const auto again = reproduce({"--also", results, "--out", folder.at("new").string(), "--json"});
  EXPECT_EQ(again.code, 0) << again.printed;
  EXPECT_FALSE(fs::exists(folder.at("new") / "runs")) << "nothing is trained";
  const auto json = nlohmann::json::parse(again.printed.substr(again.printed.find("{\n")));
  EXPECT_EQ(json.at("series").at(3).at("diverged").at(0).at("epoch"), 1);
}

/// Finished runs of SGD with ResNet-20 for the paper's table.
void write_runs_of_sgd(const std::vector<std::uint64_t>& seeds, const fs::path& folder) {
  for (const auto& planned : adaact::table_cifar().plan({}).runs) {
    const auto& config = planned.config;
    if (config.optimizer != "sgd" || config.model != "resnet20") continue;
    if (std::find(seeds.begin(), seeds.end(), config.seed) == seeds.end()) continue;
    MadeUpRun run;
    run.config = config;
    run.epochs = static_cast<int>(config.epochs);
    run.steps_per_epoch = 1;
    write_run(folder / std::to_string(config.seed), run);
  }
}

TEST(ReproduceCommand, ListsWhatIsThereAndWhatIsMissing) {
  const ToolFolder folder;
  write_runs_of_sgd({0, 1}, folder.at("runs"));
  const auto from = folder.at("runs").string();
  const auto all = folder.run({"reproduce", "--list", "--from", from});
  EXPECT_EQ(all.code, 0) << all.printed;
  EXPECT_TRUE(contains(all.printed, "  2 of 140 runs are there; the rest takes about "))
      << all.printed;
  EXPECT_TRUE(contains(all.printed, "  nothing of 15 runs is there; the rest takes about "));
  const auto as_json = folder.run({"reproduce", "--list", "--from", from, "--json"}).printed;
  for (const auto& each : nlohmann::json::parse(as_json)) {
    if (each.at("name") != "table-cifar") continue;
    EXPECT_EQ(each.at("there"), 2);
    EXPECT_EQ(each.at("missing"), 138);
    EXPECT_NE(each.at("missing_h200"), "–");
  }
  EXPECT_FALSE(fs::exists(folder.at("reproduction"))) << "a list writes nothing";
}

TEST(ReproduceCommand, ListsTheSettingsOfOneExperiment) {
  const ToolFolder folder;
  write_runs_of_sgd({0, 1}, folder.at("runs"));
  const auto list = [&](Words words) {
    const Words one{"reproduce", "table-cifar", "--list", "--from", folder.at("runs").string()};
    words.insert(words.begin(), one.begin(), one.end());
    return folder.run(words).printed;
  };
  const auto json = nlohmann::json::parse(list({"--json"}));
  const auto& sgd = json.at("settings").at(1);
  EXPECT_EQ(sgd.at("series"), "SGD");
  EXPECT_EQ(sgd.at("seeds"), (nlohmann::json{0, 1}));
  EXPECT_EQ(sgd.at("missing_seeds"), (nlohmann::json{2, 3, 4}));
  EXPECT_EQ(sgd.at("h200"), "about 5 min");
  EXPECT_EQ(json.at("settings").size(), 28U);
  const auto all = list({});
  EXPECT_TRUE(contains(all, "2 seeds             2,3,4           ")) << all;
  EXPECT_TRUE(contains(all, "\n2 of 140 runs are there; the rest takes about ")) << all;
  const auto part = list({"--models", "resnet20,resnet32", "--optimizers", "sgd,adam"});
  EXPECT_TRUE(contains(part, "\n2 of 20 runs are there")) << part;
  EXPECT_FALSE(contains(part, "AdaAct"));
}

TEST(ReproduceCommand, APartThatAnExperimentDoesNotHaveIsAnError) {
  const ToolFolder folder;
  const auto list = [&](const Words& words) { return folder.run(words); };
  const auto model = list({"reproduce", "table-cifar", "--list", "--models", "resnt20"});
  EXPECT_EQ(model.code, 2);
  EXPECT_TRUE(
      contains(model.printed, "table-cifar has no runs of the model 'resnt20'; it has: resnet20, "))
      << model.printed;
  const auto optimizer = list({"reproduce", "fig-power", "--list", "--optimizers", "sgd"});
  EXPECT_EQ(optimizer.code, 2);
  EXPECT_TRUE(
      contains(optimizer.printed, "fig-power has no runs of the optimizer 'sgd'; it has: adaact"))
      << optimizer.printed;
  EXPECT_EQ(list({"reproduce", "--list", "--models", "resnet20"}).code, 2)
      << "of which experiment?";
}

TEST(ReproduceCommand, APartDecidesWhatIsTrainedAndThePageIsOfTheWhole) {
  const ToolFolder folder;
  MadeUpRun run;
  for (const auto& planned : adaact::weight_decay().plan({}).runs) {
    if (planned.config.optimizer != "adam") continue;
    run.config = planned.config;
    run.epochs = static_cast<int>(planned.config.epochs);
    run.steps_per_epoch = 1;
    write_run(folder.at("runs") / std::to_string(planned.config.seed), run);
  }
  const auto [code, printed] =
      folder.run({"reproduce", "weight-decay", "--optimizers", "adam", "--also",
                  folder.at("runs").string(), "--out", folder.at("out").string()});
  EXPECT_EQ(code, 0) << printed;
  EXPECT_FALSE(fs::exists(folder.at("out") / "runs")) << "all of the part is there";
  EXPECT_TRUE(contains(printed, "not there yet: 12 runs")) << printed;
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "weight-decay.html"), "AdaAct, λ = 0.0001"));
}

TEST(ReproduceCommand, APartOfWhatIsOnlyDrawnIsRefused) {
  const ToolFolder folder;
  fs::create_directories(folder.at("results"));
  const Words drawing{"reproduce", "table-cifar", "--from", folder.at("results").string(),
                      "--models",  "resnet20"};
  const auto refused = folder.run(drawing);
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(contains(refused.printed, "--from excludes --models")) << refused.printed;
  auto listing = drawing;
  listing.push_back("--list");
  EXPECT_EQ(folder.run(listing).code, 0);
}

TEST(ReproduceCommand, FindsMistakesBeforeTheWork) {
  const ToolFolder folder;
  const auto twice = folder.run({"reproduce", "theory-convergence", "--quick", "--seeds", "1,1",
                                 "--out", folder.at("out").string()});
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(contains(twice.printed, "--seeds names 1 twice"));
  const auto nowhere = folder.run(
      {"reproduce", "theory-convergence", "--quick", "--out", "/proc/nowhere/reproduction"});
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_FALSE(contains(nowhere.printed, "1 of 5")) << nowhere.printed;
  const auto no_data =
      folder.run({"reproduce", "fig-step-size", "--quick", "--data-dir",
                  folder.at("nothing").string(), "--out", folder.at("out").string()});
  EXPECT_EQ(no_data.code, 1);
  EXPECT_FALSE(contains(no_data.printed, "1 of 2")) << no_data.printed;
}

}  // namespace
