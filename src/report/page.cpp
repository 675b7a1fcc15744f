#include "report/page.h"

#include <system_error>
#include <utility>

#include <c10/util/Exception.h>

#include "io/atomic_file.h"
#include "report/gnuplot.h"
#include "report/page_script.h"
#include "report/page_style.h"
#include "report/palette.h"
#include "report/plot_data.h"
#include "report/plot_svg.h"

namespace adaact {
namespace {

namespace fs = std::filesystem;

Markup row_markup(const std::vector<Cell>& row, bool heading) {
  Markup cells;
  for (const auto& cell : row) {
    const bool is_first = &cell == &row.front();
    Attributes attributes;
    if (heading) attributes.emplace_back("scope", "col");
    if (!heading && is_first) attributes.emplace_back("scope", "row");
    if (!cell.style.empty()) attributes.emplace_back("class", cell.style);
    cells += element(heading || is_first ? "th" : "td", attributes, cell.content);
  }
  return element("tr", cells) + Markup{"\n"};
}

Markup legend(const Plot& plot) {
  Markup entries;
  for (const auto& series : plot.series) {
    entries += element("li", swatch(series.style) + element("span", text(series.name)));
  }
  return element("ul", {{"class", "legend"}}, entries);
}

/// `png_address` is empty where there is no PNG.
Markup figure_of(const std::string& title, const Markup& drawing, const std::string& caption,
                 const std::string& png_address) {
  auto below = text(caption);
  if (!png_address.empty()) {
    below += text(caption.empty() ? "" : " ") +
             element("a", {{"href", png_address}, {"aria-label", "PNG of " + title}}, text("PNG"));
  }
  return element("figure", element("h3", text(title)) + drawing + element("figcaption", below)) +
         Markup{"\n"};
}

/// The place of a drawing that the page's script makes.
Markup empty_drawing(const std::string& title) {
  const auto box = "0 0 " + std::to_string(kPlotWidth) + " " + std::to_string(kPlotHeight);
  return element("svg",
                 {{"class", "plot"}, {"viewBox", box}, {"role", "img"}, {"aria-label", title}}, {});
}

Markup data_for_script(const Plot& plot, const std::string& name) {
  return {"<script type=\"application/json\">" + plot_data(plot, name) + "</script>"};
}

Markup figure_of_nothing(const std::string& title) {
  return element("figure", element("h3", text(title)) +
                               element("p", {{"class", "note"}}, text("Nothing to show yet.")));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  TORCH_CHECK(!error, "adaact: cannot make the folder ", folder.string(), ": ", error.message());
}

}  // namespace

Markup to_markup(const Table& table) {
  Markup rows;
  for (const auto& row : table.rows) rows += row_markup(row, /*heading=*/false);
  const auto caption = table.shows_name ? element("caption", text(table.name)) : Markup{};
  const auto content = caption + element("thead", row_markup(table.heading, /*heading=*/true)) +
                       element("tbody", Markup{"\n"} + rows);
  // With the keyboard only what can have the focus can be scrolled.
  const Attributes box{
      {"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", table.name}};
  return element("div", box, element("table", content)) + Markup{"\n"};
}

Markup swatch(std::size_t style) {
  Attributes line{{"x1", "0"}, {"y1", "6"}, {"x2", "28"}, {"y2", "6"}};
  line.emplace_back("stroke", "var(" + colour_variable(style) + ")");
  const std::string dashes = dashes_of(style);
  if (!dashes.empty()) line.emplace_back("stroke-dasharray", dashes);
  return element("svg", {{"class", "swatch"}, {"viewBox", "0 0 28 12"}, {"aria-hidden", "true"}},
                 element("line", line, {}));
}

Page::Page(std::string title) : title_(std::move(title)) {}

Page::Page(fs::path path, std::string title) : path_(std::move(path)), title_(std::move(title)) {
  std::error_code unknown;
  TORCH_CHECK(path_.has_filename() && !fs::is_directory(path_, unknown),
              "adaact: cannot write a page to '", path_.string(),
              "': expected the name of a file, as report.html");
  if (path_.has_parent_path()) make_folder(path_.parent_path());
  figure_folder_ = path_.parent_path() / (path_.stem().string() + "_figures");
}

void Page::add_heading(const std::string& heading) {
  add(element("h2", text(heading)) + Markup{"\n"});
}

void Page::add_paragraph(const std::string& paragraph, const std::string& style) {
  const auto attributes = style.empty() ? Attributes{} : Attributes{{"class", style}};
  add(element("p", attributes, text(paragraph)) + Markup{"\n"});
}

Markup Page::figure(const Plot& plot, const std::string& name, const std::string& caption) {
  const auto shown = drawable_part(plot);
  if (shown.series.empty()) return figure_of_nothing(plot.title);
  const auto data = data_for_script(shown, name);
  if (path_.empty()) {
    return figure_of(plot.title, legend(shown) + empty_drawing(plot.title) + data, caption, "");
  }
  const auto rendered = render_plot(shown, name);
  return figure_of(plot.title, legend(shown) + Markup{rendered.svg} + data, caption,
                   write_png(rendered.png, name));
}

Markup Page::heatmap(const Heatmap& heatmap, const std::string& name, const std::string& caption) {
  if (!is_drawable(heatmap)) return figure_of_nothing(heatmap.title);
  const auto rendered = render_heatmap(heatmap, name);
  return figure_of(heatmap.title, Markup{rendered.svg}, caption, write_png(rendered.png, name));
}

std::string Page::write_png(const std::string& png, const std::string& name) const {
  const auto file_name = name + ".png";
  make_folder(figure_folder_);
  write_file_atomically(figure_folder_ / file_name, png);
  return relative_address((figure_folder_.filename() / file_name).string());
}

Markup figures_markup(const std::vector<Markup>& figures) {
  Markup all{"\n"};
  for (const auto& each : figures) all += each;
  return element("div", {{"class", "figures"}}, all) + Markup{"\n"};
}

bool Page::remove_figure(const std::string& name) const {
  return fs::remove(figure_folder_ / (name + ".png"));
}

std::string Page::html(const std::optional<std::string>& version) const {
  const auto head =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n" +
      element("title", text(title_)).html + "\n<style>" + page_style() + "</style>\n</head>\n";
  const auto main =
      element("main", Markup{"\n"} + element("h1", text(title_)) + Markup{"\n"} + body_);
  const Markup script{"<script>\n" + page_script() + "</script>"};
  const auto attributes = version ? Attributes{{"data-version", *version}} : Attributes{};
  const auto body =
      element("body", attributes, Markup{"\n"} + main + Markup{"\n"} + script + Markup{"\n"});
  return head + body.html + "\n</html>\n";
}

void Page::write() const { write_file_atomically(path_, html()); }

}  // namespace adaact
