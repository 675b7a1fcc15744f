// What the tool says about itself: help, the man page, completion.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "app/tool.h"
#include "io/printable.h"
#include "support/errors.h"

namespace {

using adaact::testing::contains;
using adaact::testing::Outcome;
using adaact::testing::ToolFolder;
using adaact::testing::Words;

class HelpCommandTest : public ::testing::Test {
 protected:
  std::string printed(const Words& arguments) const {
    const auto [code, text] = folder_.run(arguments);
    EXPECT_EQ(code, 0) << text;
    return text;
  }

  /// What bash offers for a command line whose last word is not finished.
  Words completed(const Words& line) const {
    if (!std::filesystem::exists(folder_.at("script"))) {
      std::ofstream(folder_.at("script")) << printed({"completion", "bash"});
    }
    std::string words;
    for (const auto& word : line) words += " '" + word + "'";
    const auto command = "source " + folder_.at("script").string() + "; COMP_WORDS=(" + words +
                         "); COMP_CWORD=" + std::to_string(line.size() - 1) +
                         "; _adaact; printf '%s\n' \"${COMPREPLY[@]}\"";
    std::istringstream offered(folder_.run_command({"bash", "-c", command}).printed);
    Words all;
    for (std::string word; std::getline(offered, word);) {
      if (!word.empty()) all.push_back(word);
    }
    return all;
  }

  /// The commands there are, as completion names them.
  Words commands() const {
    auto all = completed({"adaact", ""});
    all.erase(std::remove_if(all.begin(), all.end(),
                             [](const std::string& word) { return word.rfind("--", 0) == 0; }),
              all.end());
    return all;
  }

  static std::size_t longest_line(const std::string& text) {
    std::size_t longest = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      longest = std::max(longest, adaact::letters_in(line));
    }
    return longest;
  }

  ToolFolder folder_;
};

TEST_F(HelpCommandTest, HelpOfEveryCommandFitsAHundredColumns) {
  const auto all = commands();
  ASSERT_GE(all.size(), 10U);
  EXPECT_LE(longest_line(printed({"--help"})), 100U);
  for (const auto& command : all) {
    const auto help = printed({command, "--help"});
    EXPECT_LE(longest_line(help), 100U) << help;
    EXPECT_EQ(printed({"help", command}), help);
  }
  EXPECT_EQ(printed({"help"}), printed({"--help"}));
}

TEST_F(HelpCommandTest, OptionsThatExcludeOneAreNamedInTheSameOrderEachTime) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    EXPECT_TRUE(contains(printed({"pack", "--help"}),
                         "--verify Excludes: --shard-size --skip-bad-images\n"));
  }
}

TEST_F(HelpCommandTest, AnUnknownCommandIsNamed) {
  const auto [code, text] = folder_.run({"help", "trian"});
  EXPECT_EQ(code, 2);
  EXPECT_TRUE(contains(text, "there is no command 'trian'; did you mean 'train'?"));
}

TEST_F(HelpCommandTest, CompletionKnowsCommandsOptionsAndValues) {
  EXPECT_EQ(completed({"adaact", "tra"}), Words{"train"});
  EXPECT_EQ(completed({"adaact", "train", "--opti"}),
            (Words{"--optimizer", "--optimizer-options"}));
  EXPECT_EQ(completed({"adaact", "train", "--model", "resnet3"}), (Words{"resnet32", "resnet34"}));
  EXPECT_EQ(completed({"adaact", "eval", "--device", ""}), (Words{"cpu", "cuda"}));
  EXPECT_EQ(completed({"adaact", "help", "exp"}), Words{"export"});
  EXPECT_TRUE(completed({"adaact", "predict", "--run", ""}).empty());  // names of files
  EXPECT_TRUE(completed({"adaact", "predict", ""}).empty());
  const auto [code, text] = folder_.run({"completion", "fish"});
  EXPECT_EQ(code, 2);
  EXPECT_TRUE(contains(text, "is 'fish', expected bash or zsh"));
}

TEST_F(HelpCommandTest, TheManPageHasEveryCommandAndOption) {
  const auto page = printed({"help", "--man"});
  const auto escaped_hyphens = [](const std::string& text) {
    std::string escaped;
    for (const char letter : text) escaped += letter == '-' ? "\\-" : std::string(1, letter);
    return escaped;
  };
  for (const auto& command : commands()) {
    EXPECT_TRUE(contains(page, "\n.SS " + escaped_hyphens(command) + "\n"));
    for (const auto& option : completed({"adaact", command, "--"})) {
      if (option == "--help") continue;
      const auto escaped = escaped_hyphens(option);
      EXPECT_TRUE(contains(page, "\\fB" + escaped + "\\fR")) << command;
    }
  }
  // No line may begin with a request that troff does not know.
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '.') continue;
    const auto request = line.substr(0, line.find(' '));
    const Words known{".TH", ".SH", ".SS", ".TP", ".PP", ".br", ".BR"};
    EXPECT_EQ(std::count(known.begin(), known.end(), request), 1) << line;
  }
}

}  // namespace
