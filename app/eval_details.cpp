#include "eval_details.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "io/printable.h"
#include "report/details_section.h"
#include "report/format.h"
#include "text_table.h"

namespace adaact::app {
namespace {

using Align = TextTable::Align;
using nlohmann::json;

std::string name_of_class(const TestDetails& details, std::int64_t index) {
  return printable(details.classes[static_cast<std::size_t>(index)]);
}

/// "Shirt (12)": what images of each class are taken for most often; empty where for nothing else.
std::vector<std::string> most_frequent_mistakes(const TestDetails& details) {
  std::vector<std::string> of_class(details.classes.size());
  for (const auto& mistake : details.mistakes()) {  // the most frequent first
    auto& words = of_class[static_cast<std::size_t>(mistake.label)];
    if (words.empty()) {
      words = name_of_class(details, mistake.predicted) + " (" + grouped(mistake.images) + ")";
    }
  }
  return of_class;
}

void print_classes(const TestDetails& details, const std::vector<std::size_t>& shown) {
  const auto classes = details.by_class();
  const auto mistakes = most_frequent_mistakes(details);
  TextTable table;
  table.add_column("class", 0, Align::Left);
  table.add_column("images", 0, Align::Right);
  table.add_column("right", 0, Align::Right);
  table.add_column("most often taken for", 0, Align::Left);
  for (const auto index : shown) {
    table.add_row({name_of_class(details, static_cast<std::int64_t>(index)),
                   grouped(classes[index].images), percent(classes[index].accuracy()),
                   mistakes[index]});
  }
  table.print();
}

/// Columns have the numbers that stand before the rows: names of classes are too long for them.
void print_matrix(const TestDetails& details) {
  const auto counts = details.matrix();
  const auto classes = details.classes.size();
  std::printf("\nconfusion matrix: rows are the classes, columns what they are taken for\n");
  TextTable table;
  table.add_column("", 0, Align::Right);
  table.add_column("class", 0, Align::Left);
  for (std::size_t column = 0; column < classes; ++column) {
    table.add_column(std::to_string(column), 0, Align::Right);
  }
  for (std::size_t row = 0; row < classes; ++row) {
    std::vector<std::string> cells{std::to_string(row),
                                   name_of_class(details, static_cast<std::int64_t>(row))};
    for (std::size_t column = 0; column < classes; ++column) {
      const auto count = counts[row * classes + column];
      cells.push_back(count == 0 ? "." : std::to_string(count));
    }
    table.add_row(std::move(cells));
  }
  table.print();
}

void print_frequent_mistakes(const TestDetails& details) {
  auto mistakes = details.mistakes();
  if (mistakes.empty()) return;
  mistakes.resize(std::min(mistakes.size(), kMostMistakes));
  std::printf("\nmost frequent mistakes\n");
  TextTable table;
  table.add_column("class", 0, Align::Left);
  table.add_column("taken for", 0, Align::Left);
  table.add_column("images", 0, Align::Right);
  for (const auto& mistake : mistakes) {
    table.add_row({name_of_class(details, mistake.label), name_of_class(details, mistake.predicted),
                   grouped(mistake.images)});
  }
  table.print();
}

}  // namespace

void print_details(const TestDetails& details) {
  std::printf("\n");
  if (details.classes.size() <= kMostClassesInMatrix) {
    std::vector<std::size_t> all(details.classes.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    print_classes(details, all);
    print_matrix(details);
    return;
  }
  auto worst = worst_classes(details.by_class());
  worst.resize(std::min(worst.size(), kWorstClasses));
  std::printf("the %zu least accurate of %zu classes\n", worst.size(), details.classes.size());
  print_classes(details, worst);
  print_frequent_mistakes(details);
}

json details_json(const TestDetails& details) {
  const auto classes = details.by_class();
  const auto counts = details.matrix();
  json result{
      {"classes", json::array()}, {"confusion", json::array()}, {"most_wrong", json::array()}};
  for (std::size_t row = 0; row < classes.size(); ++row) {
    result["classes"].push_back({{"class", details.classes[row]},
                                 {"images", classes[row].images},
                                 {"right", classes[row].right},
                                 {"accuracy", classes[row].accuracy()}});
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(row * classes.size());
    result["confusion"].push_back(
        std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(classes.size())));
  }
  for (const auto& image : details.most_wrong) {
    result["most_wrong"].push_back(
        {{"index", image.index},
         {"class", details.classes[static_cast<std::size_t>(image.label)]},
         {"prediction", details.classes[static_cast<std::size_t>(image.predicted)]},
         {"probability", image.probability}});
  }
  return result;
}

}  // namespace adaact::app
