#include "report/page.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "report/format.h"
#include "report/gnuplot.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::Page;
using adaact::Plot;
using adaact::render_plot;
using adaact::text;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;

Plot small_plot() {
  Plot plot{"Loss", {"steps"}, {"loss"}, {}};
  plot.series.push_back({"first", {{0, 1}, {1, 2}, {2, 1.5}}, 0});
  plot.series.push_back({"second", {{0, 3}, {2, 4}}, 7});
  return plot;
}

/// While it lives, programs are looked for in an empty folder.
class NoPrograms {
 public:
  NoPrograms() : before_(std::getenv("PATH")) { ::setenv("PATH", empty_.path().c_str(), 1); }
  ~NoPrograms() { ::setenv("PATH", before_.c_str(), 1); }
  NoPrograms(const NoPrograms&) = delete;
  NoPrograms& operator=(const NoPrograms&) = delete;

 private:
  TemporaryFolder empty_;
  std::string before_;
};

TEST(Markup, EscapesWhatHtmlWouldTakeForItsOwn) {
  EXPECT_EQ(text("<a href=\"x\">'&'").html, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  EXPECT_EQ(adaact::element("p", {{"title", "\"<&"}}, text("<b>")).html,
            "<p title=\"&quot;&lt;&amp;\">&lt;b&gt;</p>");
}

TEST(Markup, ShowsBytesThatAreNoText) {
  EXPECT_EQ(text("é\t\x01").html, "é  ");
  EXPECT_EQ(text("a\xff").html, "a\xEF\xBF\xBD");
}

TEST(Markup, AddressesLeadToFilesOfAnyName) {
  EXPECT_EQ(adaact::relative_address("a:b/c d#1?50%é.png"), "./a%3Ab/c%20d%231%3F50%25%C3%A9.png");
}

TEST(Format, NumbersAreAsAPersonReadsThem) {
  EXPECT_EQ(adaact::percent(0.86314), "86.31 %");
  EXPECT_EQ(adaact::percent(NAN), "–");
  EXPECT_EQ(adaact::decimal(0.36444), "0.3644");
  EXPECT_EQ(adaact::decimal(1234567.0), "1.23e+06");
  EXPECT_EQ(adaact::percent(adaact::MeanAndError{0.925, 0.0005}), "92.50 ± 0.05 %");
  EXPECT_EQ(adaact::percent(adaact::MeanAndError{0.925, NAN}), "92.50 %");
  EXPECT_EQ(adaact::percent(adaact::MeanAndError{NAN, NAN}), "–");
  EXPECT_EQ(adaact::decimal(adaact::MeanAndError{0.5, 0.25}), "0.5000 ± 0.2500");
  EXPECT_EQ(adaact::rounded(0.1 / 3), "0.0333333");
  EXPECT_EQ(adaact::fixed(-0.7249, 2), "-0.72");
  EXPECT_EQ(adaact::fixed(INFINITY, 1), "–");
  EXPECT_EQ(adaact::duration(18.64), "18.6 s");
  EXPECT_EQ(adaact::duration(724), "12 min 04 s");
  EXPECT_EQ(adaact::duration(3599.9), "1 h 00 min");
  EXPECT_EQ(adaact::duration(NAN), "–");
  EXPECT_EQ(adaact::grouped(62006), "62,006");
  EXPECT_EQ(adaact::grouped(999), "999");
  EXPECT_EQ(adaact::grouped(-1234567), "-1,234,567");
}

TEST(Table, ShowsItsNameUnlessAHeadingDoes) {
  adaact::Table table{"Bounds & means", {{adaact::text("Layer"), ""}}, {}};
  EXPECT_TRUE(contains(to_markup(table).html, "<caption>Bounds &amp; means</caption>"));
  table.shows_name = false;
  EXPECT_FALSE(contains(to_markup(table).html, "<caption>"));
  EXPECT_TRUE(contains(to_markup(table).html, "aria-label=\"Bounds &amp; means\""));
}

TEST(Gnuplot, DrawsInTheColoursOfThePage) {
  const auto rendered = render_plot(small_plot(), "loss");
  const auto& svg = rendered.svg;
  EXPECT_EQ(svg.rfind("<svg class=\"plot\" viewBox=\"0 0 400 ", 0), 0U);
  for (const char* variable :
       {"--series-1", "--series-2", "--plot-text", "--plot-axis", "--plot-grid"}) {
    EXPECT_TRUE(contains(svg, std::string("var(") + variable + ")"));
  }
  EXPECT_EQ(svg.find("rgb("), std::string::npos) << svg;
  EXPECT_TRUE(contains(svg, "stroke-dasharray"));
  EXPECT_TRUE(contains(svg, "<title>second</title>"));
  EXPECT_EQ(svg.find("<?xml"), std::string::npos);
  EXPECT_EQ(rendered.png.compare(1, 3, "PNG"), 0);
}

TEST(Gnuplot, DrawsABandBehindTheLines) {
  auto plot = small_plot();
  plot.series[1].points = {{0, 3, 0.5}, {2, 4, 5.0}};
  for (const auto scale : {adaact::Scale::Linear, adaact::Scale::Logarithmic}) {
    plot.y.scale = scale;
    const auto svg = render_plot(plot, "loss").svg;
    const auto band = svg.find("<title>second</title>");
    ASSERT_NE(band, std::string::npos);
    EXPECT_LT(band, svg.find("<title>first</title>"));
    EXPECT_NE(svg.find("<title>second</title>", band + 1), std::string::npos) << "its line";
    EXPECT_TRUE(contains(svg, "fill-opacity"));
    EXPECT_EQ(svg.find("rgb("), std::string::npos);
  }
}

TEST(Gnuplot, IdsOfTwoPlotsDiffer) {
  const auto svg = render_plot(small_plot(), "loss").svg;
  EXPECT_TRUE(contains(svg, "id='loss-gpPt6'"));
  EXPECT_TRUE(contains(svg, "xlink:href='#loss-gpPt6'"));
  EXPECT_EQ(svg.find("id='gp"), std::string::npos);
}

TEST(Gnuplot, DrawsNamesAsTheyAre) {
  TemporaryFolder folder;
  const auto trace = (folder.path() / "trace").string();
  auto plot = small_plot();
  plot.title = "'a' `touch " + trace + "` @b {/Bold c}_d^e \\n %s \"f\" <g> & \xff\n";
  plot.x.label = plot.title;
  plot.series[0].name = plot.title;
  plot.x.ticks = {{0, "100 %s"}, {1, "l'ayer_<1>"}, {2, "`touch " + trace + "`"}};
  const auto svg = render_plot(plot, "strange").svg;
  EXPECT_FALSE(std::filesystem::exists(trace));
  EXPECT_TRUE(contains(svg, "100 %s"));
  EXPECT_TRUE(contains(svg, "@b {/Bold c}_d^e \\n %s"));
  EXPECT_TRUE(contains(svg, "l’ayer_&lt;1>"));
}

TEST(Gnuplot, DrawsOnePoint) {
  Plot plot{"One", {"x"}, {"y"}, {{"only", {{1, 1}}, 0}}};
  EXPECT_TRUE(contains(render_plot(plot, "one").svg, "<use "));
  plot.y.scale = adaact::Scale::Logarithmic;
  EXPECT_TRUE(contains(render_plot(plot, "one").svg, "<use "));
}

TEST(Gnuplot, APlotWithoutPointsIsAnError) {
  EXPECT_TRUE(contains(error_of([] {
                         render_plot({"Empty", {}, {}, {}}, "empty");
                       }),
                       "the plot 'Empty' has no points"));
}

TEST(Gnuplot, ItsAbsenceIsOneLineThatSaysWhatToDo) {
  const NoPrograms none;
  const auto error = error_of([] { render_plot(small_plot(), "loss"); });
  EXPECT_TRUE(contains(error, "figures need gnuplot, which is not on the PATH"));
  EXPECT_TRUE(contains(error, "apt-get install gnuplot-nox"));
}

TEST(Page, HoldsAllThatItNeeds) {
  TemporaryFolder folder;
  const auto path = folder.path() / "new" / "results.html";
  Page page(path, "Results <1>");
  page.add_heading("A & B");
  page.add_table({"Numbers",
                  {{text("Name"), ""}, {text("Value"), "number"}},
                  {{{text("one"), ""}, {text("1"), "number"}}}});
  page.add_figures({page.figure(small_plot(), "loss", "By step.")});
  EXPECT_FALSE(std::filesystem::exists(path)) << "before it is complete";
  page.write();
  const auto html = bytes_of(path);
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0U);
  EXPECT_TRUE(contains(html, "<title>Results &lt;1&gt;</title>"));
  EXPECT_TRUE(contains(html, "<h2>A &amp; B</h2>"));
  EXPECT_TRUE(contains(html, "<th scope=\"row\">one</th><td class=\"number\">1</td>"));
  EXPECT_TRUE(contains(html, "prefers-color-scheme: dark"));
  EXPECT_TRUE(contains(html, "href=\"./results_figures/loss.png\""));
  EXPECT_TRUE(contains(html, "<script type=\"application/json\">{\"id\":\"loss\""));
  for (const char* outside : {"http:", "https:", "<script src", "<link", "url(h", "@import"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_EQ(bytes_of(path.parent_path() / "results_figures" / "loss.png").compare(1, 3, "PNG"), 0);
}

TEST(Page, APlotWithoutPointsIsASentence) {
  TemporaryFolder folder;
  Page page(folder.path() / "page.html", "Page");
  EXPECT_TRUE(
      contains(page.figure({"Empty", {}, {}, {}}, "empty", "").html, "Nothing to show yet."));
}

TEST(Page, OneThatIsServedHasNoFilesAndDrawsItself) {
  const NoPrograms none;
  Page page("Live");
  page.add_figures({page.figure(small_plot(), "loss", "By step.")});
  const auto html = page.html("17");
  EXPECT_TRUE(contains(html, "<body data-version=\"17\">"));
  EXPECT_TRUE(contains(html, "aria-label=\"Loss\"></svg>"));
  EXPECT_EQ(html.find(".png"), std::string::npos);
}

TEST(Page, APlaceThatCannotBeWrittenToIsFoundFirst) {
  TemporaryFolder folder;
  EXPECT_TRUE(contains(error_of([&] { Page(folder.path(), "Page"); }),
                       "expected the name of a file, as report.html"));
  EXPECT_TRUE(contains(error_of([] { Page("/proc/none/report.html", "Page"); }),
                       "cannot make the folder /proc/none:"));
}

}  // namespace
