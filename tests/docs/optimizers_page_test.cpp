// The tables of options in docs/optimizers.md say what the code says.

#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

/// Registry name → option → default, as the page has them.
std::map<std::string, std::map<std::string, json>> tables_of_page() {
  std::ifstream page(ADAACT_OPTIMIZERS_PAGE);
  const std::regex name(R"re(^`adaact::\w+`, `"(\w+)"`.*)re");
  const std::regex row(R"re(^\| `(\w+)` \| (.+?) \| .* \|$)re");
  std::map<std::string, std::map<std::string, json>> tables;
  std::string optimizer;
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (std::regex_match(line, match, name)) optimizer = match[1];
    if (std::regex_match(line, match, row))
      tables[optimizer][match[1]] = json::parse(match[2].str());
  }
  return tables;
}

TEST(OptimizersPageTables, NameEveryOptionWithItsDefault) {
  const auto tables = tables_of_page();
  ASSERT_EQ(tables.size(), adaact::optimizer_names().size());
  for (const auto& [optimizer, options] : tables) {
    // SAM's table has its own options; the rest are its base's.
    const auto defaults = json::parse(optimizer == "sam" ? adaact::SamOptions().to_json()
                                                         : adaact::default_options(optimizer));
    std::set<std::string> documented;
    for (const auto& [option, value] : options) {
      ASSERT_TRUE(defaults.contains(option)) << optimizer << " has no " << option;
      EXPECT_EQ(value, defaults[option]) << optimizer << " " << option;
      documented.insert(option);
    }
    for (const auto& [option, value] : defaults.items()) {
      EXPECT_EQ(documented.count(option), 1U)
          << optimizer << " " << option << " is not in the page";
    }
  }
}

}  // namespace
