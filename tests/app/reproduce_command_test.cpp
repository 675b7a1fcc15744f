// `adaact reproduce` as a person uses it.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
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
  EXPECT_EQ(list.size(), 11U);
  for (const auto& each : list) {
    for (const char* machine : {"two_cores", "h200"}) {
      EXPECT_EQ(std::string(each.at(machine)).rfind("about ", 0), 0U) << "all was timed: " << each;
    }
    EXPECT_EQ(each.at("quick") == "–", each.at("obstacle") != "") << each;
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
  const auto refused =
      folder.run({"reproduce", "table-imagenet-vit", "--out", folder.at("out").string()});
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.printed, "RandAugment"));
  const auto useless =
      folder.run({"reproduce", "fig-cifar", "--from", folder.at("").string(), "--device", "cpu"});
  EXPECT_EQ(useless.code, 2);
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--dataset", "cifar11"}).code, 2);
  EXPECT_EQ(folder.run({"reproduce", "fig-cifar", "--seeds", "1,1"}).code, 2);
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
  EXPECT_FALSE(contains(drawn.printed, "are there")) << "all of it was kept";
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
  std::string diverged;
  for (const auto& planned : adaact::fig_no_batchnorm().plan(form).runs) {
    MadeUpRun run;
    run.config = planned.config;
    if (planned.series == "SGD without BN") {
      run = diverged_run(planned.config, 0);
      diverged = folder_name(planned);
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
  EXPECT_FALSE(contains(drawn.printed, "are there")) << "nothing is missing";
  EXPECT_TRUE(contains(bytes_of(folder.at("out") / "fig-no-batchnorm.html"), "diverged in epoch"));
  EXPECT_TRUE(contains(bytes_of(folder.at("results") / diverged / "metrics.jsonl"), "diverged"));

  const auto again = reproduce({"--also", results, "--out", folder.at("new").string(), "--json"});
  EXPECT_EQ(again.code, 0) << again.printed;
  EXPECT_FALSE(fs::exists(folder.at("new") / "runs")) << "nothing is trained";
  const auto json = nlohmann::json::parse(again.printed.substr(again.printed.find("{\n")));
  EXPECT_EQ(json.at("series").at(3).at("diverged").at(0).at("epoch"), 1);
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
