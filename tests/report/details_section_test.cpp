#include "report/details_section.h"

#include <gtest/gtest.h>

#include "report/plot_data.h"
#include "support/errors.h"
#include "support/made_up_details.h"

#include <nlohmann/json.hpp>

namespace {

using adaact::details_section;
using adaact::plot_data;
using adaact::testing::contains;
using adaact::testing::kRedPixel;
using adaact::testing::made_up_details;

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(DetailsSection, FewClassesHaveAMatrix) {
  const auto html = details_section(made_up_details(3), 2).html;
  EXPECT_TRUE(contains(html,
                       "<th scope=\"row\">class &lt;0&gt;</th><td>50.00 %</td>"
                       "<td class=\"right-6\">5</td><td class=\"wrong-9\">5</td><td></td>"));
  EXPECT_EQ(count_of("<tr>", html), 4U);
  EXPECT_EQ(count_of("data:image/png;base64," + kRedPixel, html), 2U);
  EXPECT_TRUE(contains(html, "class &lt;1&gt; 99.00 %"));
  EXPECT_TRUE(contains(html, "is class &lt;0&gt;, image 0"));
}

TEST(DetailsSection, OfManyClassesTheWorstAreShown) {
  const auto html = details_section(made_up_details(100), 0).html;
  EXPECT_TRUE(contains(html, "Least accurate of 100 classes"));
  EXPECT_TRUE(contains(html, "<th scope=\"row\">class &lt;0&gt;</th><td class=\"number\">50.00 %"));
  EXPECT_EQ(count_of("<tr>", html), 2 + adaact::kWorstClasses + adaact::kMostMistakes);
  EXPECT_EQ(html.find("Most confidently wrong"), std::string::npos);
}

TEST(PlotData, IsJsonThatMayStandInAPage) {
  adaact::Plot plot{"Plot", {"steps"}, {"loss", " %"}, {}, 0.02};
  plot.x.ticks = {{1, "a"}, {2, "</script>"}};
  plot.y.scale = adaact::Scale::Logarithmic;
  plot.series.push_back({"<!--\"\\\xff", {{1, 0.123456789}, {2, 3, 0.5}}, 7});
  const auto text = plot_data(plot, "id");
  EXPECT_EQ(text.find('<'), std::string::npos);
  const auto data = nlohmann::json::parse(text);
  EXPECT_EQ(data["x"]["ticks"][1][1], "</script>");
  EXPECT_EQ(data["y"]["log"], true);
  EXPECT_EQ(data["y"]["unit"], " %");
  EXPECT_DOUBLE_EQ(data["smoothing"], 0.02);
  const auto& series = data["series"][0];
  EXPECT_EQ(series["name"], "<!--\"\\\xEF\xBF\xBD");
  EXPECT_EQ(series["colour"], "--series-2");
  EXPECT_EQ(series["dashes"], "9,4");
  EXPECT_DOUBLE_EQ(series["y"][0], 0.12346);
  EXPECT_DOUBLE_EQ(series["e"][1], 0.5);
}

TEST(PlotData, SaysWhereCurvesAreOnce) {
  adaact::Plot plot{"Plot", {}, {}, {}};
  plot.series = {{"a", {{1, 1}, {2, 2}}, 0}, {"b", {{1, 3}, {2, 4}}, 1}, {"c", {{5, 3}}, 2}};
  const auto data = nlohmann::json::parse(plot_data(plot, "id"));
  EXPECT_TRUE(data["series"][0].contains("x"));
  EXPECT_FALSE(data["series"][1].contains("x"));
  EXPECT_EQ(data["series"][2]["x"], nlohmann::json{5});
}

TEST(PlotData, HasNoMorePointsThanAFigureShows) {
  adaact::Plot plot{"Plot", {}, {}, {{"long", {}, 0}}};
  for (int i = 0; i < 5000; ++i) plot.series[0].points.push_back({1.0 * i, 1.0});
  const auto data = nlohmann::json::parse(plot_data(plot, "id"));
  const auto& x = data["series"][0]["x"];
  EXPECT_EQ(x.size(), 400U);
  EXPECT_EQ(x.front(), 0.0);
  EXPECT_EQ(x.back(), 4999.0);
  EXPECT_FALSE(data["series"][0].contains("e"));
}

}  // namespace
