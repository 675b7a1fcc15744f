#include "report/details_section.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "report/format.h"
#include "report/page.h"

namespace adaact {
namespace {

std::string class_name(const TestDetails& details, std::int64_t index) {
  return details.classes[static_cast<std::size_t>(index)];
}

/// "right-9" to nothing: right answers as a share of the images of a class, mistakes of the most frequent
/// one. The root makes rare ones visible.
std::string heat_of(std::int64_t count, std::int64_t all, bool right) {
  if (count == 0 || all == 0) return "";
  const auto share = std::sqrt(static_cast<double>(count) / static_cast<double>(all));
  const auto step = std::clamp(static_cast<int>(std::lround(9.0 * share)), 1, 9);
  return (right ? "right-" : "wrong-") + std::to_string(step);
}

Markup matrix_of(const TestDetails& details) {
  const auto classes = details.by_class();
  const auto counts = details.matrix();
  const auto columns = classes.size();
  const auto mistakes = details.mistakes();
  const auto most_frequent = mistakes.empty() ? 0 : mistakes.front().images;
  const Attributes column{{"scope", "col"}};
  auto heading = element("th", column, text("Class")) + element("th", column, text("Right"));
  for (const auto& name : details.classes) {
    heading += element("th", column, element("span", text(name)));
  }
  Markup rows;
  for (std::size_t row = 0; row < columns; ++row) {
    auto cells = element("th", {{"scope", "row"}}, text(details.classes[row])) +
                 element("td", text(percent(classes[row].accuracy())));
    for (std::size_t predicted = 0; predicted < columns; ++predicted) {
      const auto count = counts[row * columns + predicted];
      const bool right = row == predicted;
      const auto heat = heat_of(count, right ? classes[row].images : most_frequent, right);
      cells += element("td", heat.empty() ? Attributes{} : Attributes{{"class", heat}},
                       text(count == 0 ? "" : grouped(count)));
    }
    rows += element("tr", cells) + Markup{"\n"};
  }
  const auto table =
      element("table", {{"class", "matrix"}},
              element("thead", element("tr", heading)) + element("tbody", Markup{"\n"} + rows));
  const Attributes box{{"class", "scroll"},
                       {"role", "region"},
                       {"tabindex", "0"},
                       {"aria-label", "Confusion matrix"}};
  return element(
             "p", {{"class", "note"}},
             text("A row for each class: how many of its images are recognised, and as what.")) +
         element("div", box, table) + Markup{"\n"};
}

Markup worst_of_many(const TestDetails& details) {
  const auto classes = details.by_class();
  Table worst{"Least accurate of " + std::to_string(classes.size()) + " classes",
              {{text("Class"), ""}, {text("Right"), "number"}, {text("Images"), "number"}},
              {}};
  for (const auto index : worst_classes(classes)) {
    if (worst.rows.size() == kWorstClasses) break;
    worst.rows.push_back({{text(details.classes[index]), ""},
                          {text(percent(classes[index].accuracy())), "number"},
                          {text(grouped(classes[index].images)), "number"}});
  }
  Table mistakes{"Most frequent mistakes",
                 {{text("Class"), ""}, {text("Taken for"), ""}, {text("Images"), "number"}},
                 {}};
  for (const auto& mistake : details.mistakes()) {
    if (mistakes.rows.size() == kMostMistakes) break;
    mistakes.rows.push_back({{text(class_name(details, mistake.label)), ""},
                             {text(class_name(details, mistake.predicted)), ""},
                             {text(grouped(mistake.images)), "number"}});
  }
  return to_markup(worst) + (mistakes.rows.empty() ? Markup{} : to_markup(mistakes));
}

Markup pictures_of(const TestDetails& details, std::size_t count) {
  Markup entries;
  for (const auto& image : details.most_wrong) {
    if (count-- == 0) break;
    const auto right = class_name(details, image.label);
    const auto taken_for = class_name(details, image.predicted);
    const auto words = text(taken_for + " " + percent(image.probability)) +
                       element("span", {{"class", "state"}},
                               text("is " + right + ", image " + grouped(image.index)));
    entries += element(
        "li", Markup{"<img alt=\"\" src=\"data:image/png;base64," + text(image.png).html + "\">"} +
                  words);
  }
  if (entries.html.empty()) return {};
  return element("h4", text("Most confidently wrong")) +
         element("ul", {{"class", "pictures"}}, entries) + Markup{"\n"};
}

}  // namespace

std::vector<std::size_t> worst_classes(const std::vector<TestDetails::OfClass>& classes) {
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < classes.size(); ++index) {
    if (classes[index].images > 0) order.push_back(index);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t one, std::size_t other) {
    return classes[one].accuracy() < classes[other].accuracy();
  });
  return order;
}

Markup details_section(const TestDetails& details, std::size_t pictures) {
  const bool few = details.classes.size() <= kMostClassesInMatrix;
  return (few ? matrix_of(details) : worst_of_many(details)) + pictures_of(details, pictures);
}

}  // namespace adaact
