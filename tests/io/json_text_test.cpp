#include "io/json_text.h"

#include <limits>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/odd_files.h"

namespace {

using namespace adaact::testing;
using adaact::kDeepestJson;
using adaact::parse_json;
using adaact::try_parse_json;
using adaact::whole_number;
using nlohmann::json;
using nlohmann::ordered_json;

TEST(JsonText, IsReadAsNlohmannReadsIt) {
  const std::string text =
      R"( {"b": [1, -2, 2.5e3, 18446744073709551615, "ä\u00e4\n", null, true, [], {}],
           "a": {"inner": {"deep": [[false]]}, "empty": ""}} )";
  EXPECT_EQ(parse_json<json>(text, "test"), json::parse(text));
  EXPECT_EQ(parse_json<ordered_json>(text, "test").dump(), ordered_json::parse(text).dump());
  for (const char* one : {"7", "null", "\"text\"", "[]", "{}"}) {
    EXPECT_EQ(parse_json<json>(one, "test"), json::parse(one));
  }
}

TEST(JsonText, WhatIsNoJsonIsAnErrorThatNamesItsSource) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1}}", "\xFF", "nul", "1e999", "{\"a\" 1}"}) {
    EXPECT_TRUE(contains(error_of([&] { parse_json<json>(text, "some.json"); }),
                         "adaact: some.json is no JSON: "));
    EXPECT_TRUE(try_parse_json<ordered_json>(text).value.is_discarded()) << text;
  }
  const auto problem = try_parse_json<json>('"' + std::string(1'000'000, 'x')).problem;
  EXPECT_LT(problem.size(), 300U);
}

TEST(JsonText, DepthIsLimited) {
  EXPECT_TRUE(try_parse_json<json>(deep_json(kDeepestJson)).problem.empty());
  for (const auto& text : {deep_json(kDeepestJson + 1), deep_json(), std::string(5'000'000, '[')}) {
    EXPECT_EQ(try_parse_json<json>(text).problem, "it is nested deeper than 100 levels");
    EXPECT_EQ(try_parse_json<ordered_json>(text).problem, "it is nested deeper than 100 levels");
  }
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(try_parse_json<json>(objects).problem, "it is nested deeper than 100 levels");
}

/// An object that looks through all of its fields for each new one would take minutes.
TEST(JsonText, ManyFieldsAreReadInTheirOrder) {
  constexpr std::size_t kFields = 300'000;
  std::string text = "{";
  for (std::size_t i = 0; i < kFields; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(kFields - i) + "\":" + std::to_string(i);
  }
  const auto value = parse_json<ordered_json>(text + "}", "test");
  ASSERT_EQ(value.size(), kFields);
  EXPECT_EQ(value.begin().key(), std::to_string(kFields));
  EXPECT_EQ(value.begin().value(), 0);
}

TEST(JsonText, AFieldThatIsThereTwiceIsAnError) {
  for (const char* text : {R"({"a":1,"b":2,"a":3})", R"([{"x":{"a":1,"a":1}}])"}) {
    EXPECT_EQ(try_parse_json<json>(text).problem, "it has the field 'a' twice in an object");
    EXPECT_EQ(try_parse_json<ordered_json>(text).problem,
              "it has the field 'a' twice in an object");
  }
}

TEST(JsonText, WholeNumbersAreNeitherCutNorWrapped) {
  EXPECT_EQ(whole_number(json(-3), "steps"), -3);
  EXPECT_EQ(whole_number(json(9223372036854775807), "steps"),
            std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"1.5", "1e300", "9223372036854775808", "\"1\"", "null", "true", "[1]"}) {
    EXPECT_TRUE(contains(error_of([&] { whole_number(json::parse(text), "steps"); }),
                         "steps is " + json::parse(text).dump() + ", expected a whole number"));
  }
}

}  // namespace
