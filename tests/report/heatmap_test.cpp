#include "report/heatmap.h"

#include <cmath>

#include <gtest/gtest.h>

#include "report/gnuplot.h"
#include "report/page.h"
#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::Heatmap;
using adaact::Page;
using adaact::render_heatmap;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::TemporaryFolder;

Heatmap small_heatmap() { return {"Covariance <1>", 2, 3, {1, 2, 3, 4, 5, 6}, false}; }

TEST(Heatmap, IsAPictureInTheColoursOfThePage) {
  const auto rendered = render_heatmap(small_heatmap(), "covariance");
  EXPECT_EQ(rendered.svg.rfind("<svg class=\"plot\" viewBox=\"0 0 400 ", 0), 0U);
  EXPECT_TRUE(contains(rendered.svg, "data:image/png;base64,"));
  EXPECT_TRUE(contains(rendered.svg, "aria-label=\"Covariance &lt;1&gt;\""));
  EXPECT_TRUE(contains(rendered.svg, "var(--plot-text)"));
  EXPECT_EQ(rendered.png.compare(1, 3, "PNG"), 0);
}

TEST(Heatmap, LeavesOutWhatCannotBeDrawn) {
  auto heatmap = small_heatmap();
  heatmap.logarithmic = true;
  heatmap.values = {0, -1, NAN, INFINITY, 1e-3F, 1e3F};
  EXPECT_EQ(render_heatmap(heatmap, "strange").png.compare(1, 3, "PNG"), 0);
  heatmap.logarithmic = false;
  EXPECT_EQ(render_heatmap(heatmap, "strange").png.compare(1, 3, "PNG"), 0);
}

TEST(Heatmap, DrawsOneValueManyTimes) {
  for (const bool logarithmic : {false, true}) {
    const Heatmap constant{"Constant", 1, 4, {7, 7, 7, 7}, logarithmic};
    EXPECT_EQ(render_heatmap(constant, "constant").png.compare(1, 3, "PNG"), 0);
    const Heatmap single{"Single", 1, 1, {7}, logarithmic};
    EXPECT_EQ(render_heatmap(single, "single").png.compare(1, 3, "PNG"), 0);
  }
  EXPECT_EQ(render_heatmap({"Zero", 1, 1, {0}, false}, "zero").png.compare(1, 3, "PNG"), 0);
}

TEST(Heatmap, OfAnotherShapeThanItsValuesIsAnError) {
  auto heatmap = small_heatmap();
  heatmap.values.pop_back();
  EXPECT_TRUE(contains(error_of([&] { render_heatmap(heatmap, "wrong"); }),
                       "the heatmap 'Covariance <1>' has 5 values, expected 2 × 3"));
}

TEST(Heatmap, StandsInThePageAndBesideIt) {
  const TemporaryFolder folder;
  Page page(folder.path() / "page.html", "Page");
  const auto figure = page.heatmap(small_heatmap(), "covariance", "Of fc1.").html;
  EXPECT_TRUE(contains(figure, "<h3>Covariance &lt;1&gt;</h3>"));
  EXPECT_TRUE(contains(figure, "Of fc1. <a href=\"./page_figures/covariance.png\""));
  EXPECT_EQ(bytes_of(folder.path() / "page_figures" / "covariance.png").compare(1, 3, "PNG"), 0);
}

TEST(Heatmap, OfNothingIsASentence) {
  const TemporaryFolder folder;
  Page page(folder.path() / "page.html", "Page");
  auto heatmap = small_heatmap();
  heatmap.values.assign(6, NAN);
  EXPECT_TRUE(contains(page.heatmap(heatmap, "nothing", "").html, "Nothing to show yet."));
  EXPECT_TRUE(
      contains(page.heatmap({"Empty", 0, 0, {}, false}, "empty", "").html, "Nothing to show yet."));
}

}  // namespace
