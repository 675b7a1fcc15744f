#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/tool.h"
#include "data/image_files.h"
#include "support/errors.h"

namespace {

using namespace adaact::testing;
using nlohmann::json;
namespace fs = std::filesystem;

class PackCommand : public ::testing::Test {
 protected:
  PackCommand() {
    for (const auto* split : {"train", "val"}) {
      for (int i = 0; i < 8; ++i) {
        const auto shade = static_cast<std::uint8_t>(10 * i);
        const auto name = std::to_string(i) + ".jpg";
        write_jpeg(at("images") / split / "red" / name, plain_image(40, 48, {200, shade, shade}));
        write_jpeg(at("images") / split / "blue" / name, plain_image(48, 40, {shade, shade, 200}));
      }
    }
    std::ofstream(at("images") / "train" / "red" / "notes.txt") << "of the summer";
  }

  fs::path at(const std::string& name) const { return folder_.at(name); }
  std::string place(const std::string& name) const { return at(name).string(); }

  Outcome pack(const Words& more = {}) const {
    Words command{"pack", place("images"), place("packed")};
    command.insert(command.end(), more.begin(), more.end());
    return folder_.run(command);
  }
  Words training(const std::string& out, const std::string& data) const {
    return {"train", "--out",     place(out), "--data-dir",   place(data), "--epochs",
            "1",     "--model",   "lenet5",   "--batch-size", "4",         "--image-size",
            "32",    "--threads", "1"};
  }

  ToolFolder folder_;
};

TEST_F(PackCommand, SaysWhatItHasMade) {
  const auto [code, printed] = pack();
  ASSERT_EQ(code, 0) << printed;
  EXPECT_TRUE(contains(printed, place("packed") + "/train: 16 images of 2 classes in 1 shard, "));
  EXPECT_TRUE(contains(printed, place("packed") + "/val: 16 images of 2 classes in 1 shard, "));
  EXPECT_TRUE(contains(printed, "1 file in train left out: 1 is not .jpg, .jpeg, .png or .webp"));
  const auto again = pack();
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(contains(again.printed, place("packed") + " is there already; name another"));
  const auto verified = folder_.run({"pack", place("packed"), "--verify", "--json"});
  ASSERT_EQ(verified.code, 0) << verified.printed;
  const auto found = json::parse(verified.printed);
  EXPECT_EQ(found["shards"], place("packed"));
  ASSERT_EQ(found["folders"].size(), 2U);
  EXPECT_EQ(found["folders"][1]["folder"], "val");
  EXPECT_EQ(found["folders"][1]["images"], 16);
  EXPECT_EQ(found["folders"][1]["classes"], 2);
  EXPECT_EQ(found["folders"][1]["bytes"], fs::file_size(at("packed") / "val" / "000000.tar"));
}

TEST_F(PackCommand, ARunOnShardsIsARunOnTheFolder) {
  ASSERT_EQ(pack({"--quiet"}).printed, "");
  for (const auto& [out, data] : {std::pair{"first", "images"}, {"second", "packed"}}) {
    const auto trained = folder_.run(training(out, data));
    ASSERT_EQ(trained.code, 0) << trained.printed;
  }
  expect_equal_runs(at("second"), at("first"));
  const auto moved =
      folder_.run({"eval", "--run", place("first"), "--data-dir", place("packed"), "--json"});
  ASSERT_EQ(moved.code, 0) << moved.printed;
  EXPECT_EQ(json::parse(moved.printed)["images"], 16);
}

TEST_F(PackCommand, MistakesSayWhatToDo) {
  const auto refused = [&](const Words& command, int code, const std::string& message) {
    const auto outcome = folder_.run(command);
    EXPECT_EQ(outcome.code, code);
    EXPECT_TRUE(contains(outcome.printed, message));
  };
  refused({"pack"}, 2, "dir is required");
  refused({"pack", place("images")}, 2, "out is required");
  refused({"pack", place("images"), place("packed"), "--shard-size", "0"}, 2,
          "--shard-size is 0, expected 1 to 1000000");
  refused({"pack", place("images"), place("packed"), "--verify"}, 2,
          "out is '" + place("packed") + "', expected none with --verify");
  refused({"pack", place("images"), "--verify", "--shard-size", "7"}, 2,
          "--shard-size excludes --verify");
  refused({"pack", place("images"), "--verify", "--skip-bad-images"}, 2,
          "--skip-bad-images excludes --verify");
  refused({"pack", place("images"), "--verify"}, 1, "/train has no shards");
  refused({"pack", place("nowhere"), place("packed")}, 1, "there is no folder " + place("nowhere"));
}

TEST_F(PackCommand, ADiskThatIsFullLeavesNothing) {
  std::string line;
  for (const auto& word : tool_command({"pack", place("images"), place("packed")})) {
    line += "'" + word + "' ";
  }
  const auto [code, printed] = folder_.run_command(
      {"sh", "-c", "trap '' XFSZ; ulimit -f 20; exec " + line});  // blocks of 512 bytes
  EXPECT_EQ(code, 1) << printed;
  EXPECT_TRUE(contains(printed, "000000.tar"));
  EXPECT_TRUE(contains(printed, "File too large"));
  EXPECT_FALSE(fs::exists(at("packed")));
  EXPECT_FALSE(fs::exists(at("packed.unfinished")));
}

}  // namespace
