// `adaact reproduce` as a person uses it.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "support/errors.h"

namespace {

using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::ToolFolder;
using adaact::testing::Words;
namespace fs = std::filesystem;

TEST(ReproduceCommand, ListsWhatThereIs) {
  const auto [code, printed] = ToolFolder().run({"reproduce", "--list"});
  EXPECT_EQ(code, 0);
  for (const char* name : {"fig-power", "table-cifar", "theory-convergence"}) {
    EXPECT_TRUE(contains(printed, name));
  }
  const auto as_json = ToolFolder().run({"reproduce", "--list", "--json"}).printed;
  EXPECT_EQ(nlohmann::json::parse(as_json).size(), 11U);
}

TEST(ReproduceCommand, NeedsAName) {
  EXPECT_EQ(ToolFolder().run({"reproduce"}).code, 2);
  const auto [code, printed] = ToolFolder().run({"reproduce", "fig-powr"});
  EXPECT_EQ(code, 1);
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

}  // namespace
