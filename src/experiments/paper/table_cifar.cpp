#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "experiments/page/curves.h"
#include "experiments/page/titles.h"
#include "experiments/paper/catalog.h"
#include "experiments/paper/cifar_comparison.h"
#include "experiments/paper/paper_runs.h"
#include "experiments/shelf/divergence.h"
#include "report/format.h"
#include "report/mean_and_error.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;
using Verdict = Finding::Verdict;

constexpr double kRunsOfPaper = 5.0;
/// Closer than this is close enough, however small the errors are. In points of per cent.
constexpr double kAlike = 0.5;

struct PaperColumn {
  const char* dataset;
  const char* model;
  std::array<MeanAndError, 7> cells;  // in the order of paper_optimizers(), per cent
};

const std::array<PaperColumn, 4> kPaper{{
    {"cifar10",
     "resnet20",
     {{{92.49, 0.18},
       {92.63, 0.21},
       {91.37, 0.17},
       {89.85, 0.21},
       {91.87, 0.16},
       {92.74, 0.24},
       {91.79, 0.09}}}},
    {"cifar10",
     "resnet32",
     {{{93.58, 0.12},
       {93.43, 0.23},
       {92.43, 0.14},
       {90.99, 0.21},
       {92.77, 0.15},
       {93.64, 0.20},
       {92.50, 0.16}}}},
    {"cifar100",
     "resnet34",
     {{{78.89, 0.21},
       {78.94, 0.21},
       {72.49, 0.37},
       {72.87, 0.46},
       {72.83, 0.54},
       {78.51, 0.32},
       {76.79, 0.09}}}},
    {"cifar100",
     "densenet121",
     {{{79.91, 0.11},
       {79.93, 0.20},
       {73.38, 0.30},
       {74.99, 0.20},
       {74.65, 0.43},
       {79.45, 0.27},
       {79.44, 0.18}}}},
}};

std::optional<MeanAndError> in_paper(const CifarCell& cell) {
  const auto& optimizers = paper_optimizers();
  const auto row = std::find(optimizers.begin(), optimizers.end(), cell.optimizer);
  for (const auto& column : kPaper) {
    if (column.dataset != cell.dataset || column.model != cell.model) continue;
    return column.cells.at(static_cast<std::size_t>(row - optimizers.begin()));
  }
  return std::nullopt;
}

/// Test accuracy in per cent after the last epoch; of runs that diverged as final_top1_of_run() has
/// it.
std::optional<MeanAndError> accuracy_of(const CifarCell& cell) {
  std::vector<double> values;
  for (const auto* run : cell.runs) values.push_back(100.0 * final_top1_of_run(*run));
  return values.empty() ? std::nullopt : std::optional(mean_and_error(values));
}

std::string accuracy_text(const MeanAndError& accuracy) {
  char text[48];
  if (std::isnan(accuracy.standard_error)) {
    std::snprintf(text, sizeof(text), "%.2f", accuracy.mean);
  } else {
    std::snprintf(text, sizeof(text), "%.2f ± %.2f", accuracy.mean, accuracy.standard_error);
  }
  return text;
}

/// "5 seeds", "1 seed, diverged in epoch 3"
std::string seeds_text(const CifarCell& cell) {
  const auto divergence = divergence_text(cell.runs);
  return count_text(cell.runs) + (divergence.empty() ? "" : ", " + divergence);
}

/// A cell that was measured and that the paper has.
struct Compared {
  std::string optimizer;
  std::size_t seeds = 0;
  std::string note;  // as seeds_text() has it
  MeanAndError ours;
  MeanAndError papers;

  std::string title() const { return optimizer_title(optimizer); }
  /// Our accuracy as a fraction.
  OverSeeds over_seeds() const {
    return {ours.mean / 100.0, ours.standard_error / 100.0, seeds, seeds};
  }
  /// Our standard error. That of a single seed is not known: the spread of the paper's runs takes
  /// its place.
  double our_error() const {
    return seeds > 1 ? ours.standard_error : papers.standard_error * std::sqrt(kRunsOfPaper);
  }
};

std::vector<Compared> compared_cells(const CifarColumn& column) {
  std::vector<Compared> cells;
  for (const auto& cell : column) {
    const auto ours = accuracy_of(cell);
    const auto papers = in_paper(cell);
    if (ours && papers) {
      cells.push_back(
          {cell.optimizer, seeds_in(cell.runs).size(), seeds_text(cell), *ours, *papers});
    }
  }
  return cells;
}

bool are_alike(double one, double other, double combined_error) {
  return std::abs(one - other) <= std::max(2.0 * combined_error, kAlike);
}

Finding same_accuracy(const Compared& cell, const std::string& where) {
  const auto error = std::hypot(cell.our_error(), cell.papers.standard_error);
  const bool alike = are_alike(cell.ours.mean, cell.papers.mean, error);
  return {cell.title() + ", " + where + ": " + accuracy_text(cell.papers) + " %",
          accuracy_text(cell.ours) + " % (" + cell.note + ")",
          alike ? Verdict::Agrees : Verdict::Disagrees};
}

/// Whether two stand the other way round than in the paper, by more than two standard errors of all
/// four numbers.
bool are_swapped(const Compared& one, const Compared& other) {
  const auto ours = one.ours.mean - other.ours.mean;
  const auto papers = one.papers.mean - other.papers.mean;
  const auto error = std::hypot(std::hypot(one.our_error(), other.our_error()),
                                std::hypot(one.papers.standard_error, other.papers.standard_error));
  return ours * papers < 0.0 && std::abs(ours - papers) > 2.0 * error;
}

std::string from_the_best(std::vector<Compared> cells, MeanAndError Compared::*accuracy) {
  std::stable_sort(cells.begin(), cells.end(), [&](const Compared& one, const Compared& other) {
    return (one.*accuracy).mean > (other.*accuracy).mean;
  });
  std::string list;
  for (const auto& cell : cells) list += (list.empty() ? "" : ", ") + cell.title();
  return list;
}

/// Whether two of our accuracies are nearer to each other than two standard errors.
bool are_too_close(const Compared& one, const Compared& other) {
  return std::abs(one.ours.mean - other.ours.mean) <=
         2.0 * std::hypot(one.our_error(), other.our_error());
}

Finding same_order(const std::vector<Compared>& cells, const std::string& where) {
  std::string swapped;
  std::string close;
  for (auto one = cells.begin(); one != cells.end(); ++one) {
    for (auto other = one + 1; other != cells.end(); ++other) {
      const auto names = one->title() + " and " + other->title();
      if (are_swapped(*one, *other)) {
        swapped += (swapped.empty() ? "" : ", ") + names;
      } else if (are_too_close(*one, *other)) {
        close += (close.empty() ? "" : ", ") + names;
      }
    }
  }
  Finding finding{where + ", from the best: " + from_the_best(cells, &Compared::papers),
                  from_the_best(cells, &Compared::ours), Verdict::Open};
  if (!swapped.empty())
    finding.measured += "; swapped by more than two standard errors: " + swapped;
  if (!close.empty()) finding.measured += "; too close to call: " + close;
  const bool enough_seeds = std::all_of(
      cells.begin(), cells.end(), [](const Compared& cell) { return cell.seeds >= kFewestSeeds; });
  if (!enough_seeds) {
    finding.measured += "; fewer than three seeds of one or more: no verdict";
  } else if (!swapped.empty()) {
    finding.verdict = Verdict::Disagrees;
  } else if (cells.size() == paper_optimizers().size()) {
    finding.verdict = Verdict::Agrees;
  }
  return finding;
}

std::vector<Compared> those_of(const std::vector<Compared>& cells,
                               const std::vector<std::string>& optimizers) {
  std::vector<Compared> chosen;
  for (const auto& cell : cells) {
    const bool is_one =
        std::find(optimizers.begin(), optimizers.end(), cell.optimizer) != optimizers.end();
    if (is_one) chosen.push_back(cell);
  }
  return chosen;
}

bool is_lower(const Compared& one, const Compared& other) {
  return one.ours.mean < other.ours.mean;
}

std::optional<Finding> adaptive_methods_end_lower(const std::vector<Compared>& cells,
                                                  const std::string& where) {
  const auto adaptive = those_of(cells, {"adam", "adamw", "adan"});
  const auto others = those_of(cells, {"adaact", "sgd", "kfac"});
  if (adaptive.empty() || others.empty()) return std::nullopt;
  const auto& best = *std::max_element(adaptive.begin(), adaptive.end(), is_lower);
  const auto& lowest = *std::min_element(others.begin(), others.end(), is_lower);
  std::vector<Lead> leads;
  for (const auto& other : others) {
    for (const auto& one : adaptive) {
      leads.push_back(
          {other.title() + " and " + one.title(), other.over_seeds() - one.over_seeds()});
    }
  }
  auto [verdict, reason] = judge(leads);
  const bool all_there = adaptive.size() + others.size() == 6;
  if (!all_there && verdict == Verdict::Agrees) verdict = Verdict::Open;
  return Finding{where + ": Adam, AdamW and Adan end lower than AdaAct, SGD and KFAC",
                 "the best of those, " + best.title() + ": " + accuracy_text(best.ours) +
                     " %; the lowest of these, " + lowest.title() + ": " +
                     accuracy_text(lowest.ours) + " %." + reason,
                 verdict};
}

std::optional<Finding> adaact_is_like_sgd(const std::vector<Compared>& cells,
                                          const std::string& where) {
  const auto both = those_of(cells, {"adaact", "sgd"});
  if (both.size() < 2) return std::nullopt;
  const auto& one = both.front();
  const auto& other = both.back();
  const auto error = std::hypot(one.our_error(), other.our_error());
  return Finding{
      where + ": AdaAct's accuracy is similar to SGD's",
      accuracy_text(one.ours) + " % and " + accuracy_text(other.ours) + " %",
      are_alike(one.ours.mean, other.ours.mean, error) ? Verdict::Agrees : Verdict::Disagrees};
}

class TableCifar : public Experiment {
 public:
  std::string name() const override { return "table-cifar"; }
  std::string title() const override { return "Table 1: test accuracy on CIFAR"; }
  std::string shows() const override {
    return "final test accuracy of seven optimizers with ResNet and DenseNet on CIFAR";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    return cifar_comparison(form, seeds_of(form, {0, 1, 2, 3, 4}));
  }

  void draw(const Found& found, Page& page) const override {
    const auto columns = cifar_columns(found);
    Table table{"Test accuracy", {{text("Optimizer"), ""}}, {}};
    for (const auto& optimizer : paper_optimizers()) {
      table.rows.push_back({{text(optimizer_title(optimizer)), ""}});
    }
    for (const auto& column : columns) add_column(column, table);
    page.add_table(table);
    page.add_paragraph(
        "Test accuracy after the last epoch in per cent, mean ± standard error over all runs that "
        "are there; the paper's numbers are of five runs. A run that diverged counts as guessing. "
        "The time is that of training without evaluation, of the fastest run: others may have "
        "shared their machine. Taken for the same accuracy as the paper's: within half a point, or "
        "within twice the standard error of the difference, for which a single seed is given the "
        "spread of the paper's five.",
        "note");
  }

  std::vector<Finding> findings(const Found& found) const override {
    std::vector<Finding> all;
    const auto add = [&](const std::optional<Finding>& finding) {
      if (finding) all.push_back(*finding);
    };
    for (const auto& column : cifar_columns(found)) {
      const auto cells = compared_cells(column);
      const auto where = column.front().title();
      for (const auto& cell : cells) all.push_back(same_accuracy(cell, where));
      if (cells.size() > 1) all.push_back(same_order(cells, where));
      add(adaptive_methods_end_lower(cells, where));
      add(adaact_is_like_sgd(cells, where));
    }
    return all;
  }

  ordered_json to_json(const Found& found) const override {
    auto list = ordered_json::array();
    for (const auto& column : cifar_columns(found)) {
      for (const auto& cell : column) list.push_back(cell_to_json(cell));
    }
    return list;
  }

 private:
  /// Adds our accuracies, and the paper's where it has such a column.
  static void add_column(const CifarColumn& column, Table& table) {
    const bool is_papers = in_paper(column.front()).has_value();
    table.heading.push_back({text(column.front().title()), "number"});
    if (is_papers) table.heading.push_back({text("paper"), "number"});
    for (std::size_t index = 0; index < column.size(); ++index) {
      auto& row = table.rows.at(index);
      const auto ours = accuracy_of(column[index]);
      row.push_back({text(ours ? accuracy_text(*ours) : kNothing), "number"});
      if (ours) {
        row.back().content +=
            element("span", {{"class", "state"}}, text(seeds_text(column[index])));
        if (const auto seconds = fastest_training(column[index].runs)) {
          row.back().content += element("span", {{"class", "state"}}, text(duration(*seconds)));
        }
      }
      if (is_papers) row.push_back({text(accuracy_text(*in_paper(column[index]))), "number"});
    }
  }

  static ordered_json cell_to_json(const CifarCell& cell) {
    ordered_json object{
        {"dataset", cell.dataset},  {"model", cell.model},       {"optimizer", cell.optimizer},
        {"mean", nullptr},          {"standard_error", nullptr}, {"seeds", ordered_json::array()},
        {"runs", cell.runs.size()}, {"seconds", nullptr},        {"paper", nullptr}};
    object["diverged"] = divergences_json(cell.runs);
    if (const auto ours = accuracy_of(cell)) {
      object["mean"] = ours->mean;
      object["standard_error"] = ours->standard_error;  // NaN of a single one, which is null
      object["seeds"] = seeds_in(cell.runs);
      if (const auto seconds = fastest_training(cell.runs)) object["seconds"] = *seconds;
    }
    if (const auto papers = in_paper(cell)) {
      object["paper"] = {{"mean", papers->mean}, {"standard_error", papers->standard_error}};
    }
    return object;
  }
};

}  // namespace

const Experiment& table_cifar() {
  static const TableCifar experiment;
  return experiment;
}

}  // namespace adaact
