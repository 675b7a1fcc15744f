#include <adaact/report/report.h>

#include <algorithm>
#include <set>
#include <utility>

#include "report/format.h"
#include "report/named_runs.h"
#include "report/page.h"
#include "report/run_plots.h"
#include "report/run_tables.h"

namespace adaact {
namespace {

std::string title_for(const std::vector<NamedRun>& runs) {
  return runs.size() == 1 ? "Training run " + runs.front().name
                          : "Comparison of " + std::to_string(runs.size()) + " training runs";
}

std::string joined(const std::set<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

/// The sentence at the top of a report: what a reader wants to know first.
std::string lead(const std::vector<NamedRun>& runs) {
  std::set<std::string> models;
  std::set<std::string> data;
  const NamedRun* winner = nullptr;
  for (const auto& run : runs) {
    models.insert(run.history.config.model);
    data.insert(run.history.config.dataset);
    const auto* best = run.history.best_epoch();
    if (best != nullptr &&
        (winner == nullptr || best->test.top1 > winner->history.best_epoch()->test.top1)) {
      winner = &run;
    }
  }
  const auto what = joined(models) + " on " + joined(data) + ". ";
  if (winner == nullptr) {
    const bool may_go_on = std::any_of(runs.begin(), runs.end(),
                                       [](const NamedRun& run) { return !run.history.divergence; });
    return what + (may_go_on ? "No epoch is finished yet." : "No epoch was finished.");
  }
  const auto& best = *winner->history.best_epoch();
  const auto by =
      runs.size() == 1 ? "" : winner->name + " (" + winner->history.config.optimizer + ") ";
  return what + "Best test accuracy: " + percent(best.test.top1) + ", " + by + "after epoch " +
         std::to_string(best.epoch + 1) + ".";
}

void add_curves(const std::vector<NamedRun>& runs, Page& page) {
  page.add_heading("Curves");
  const std::string smoothing =
      "Moving average over 2 % of each run's steps, where that is more than one.";
  const std::string seconds = "Training alone, without evaluation.";
  page.add_figures(
      {page.figure(train_loss_plot(runs, Against::Epochs), "train_loss_epochs", smoothing),
       page.figure(train_loss_plot(runs, Against::Seconds), "train_loss_seconds",
                   smoothing + " " + seconds),
       page.figure(test_accuracy_plot(runs, Against::Epochs), "test_accuracy_epochs",
                   "After each epoch."),
       page.figure(test_accuracy_plot(runs, Against::Seconds), "test_accuracy_seconds", seconds)});
}

std::string layers_caption(const RunHistory& run) {
  const auto count = run.epochs.empty() ? 0 : run.epochs.back().second_moments.size();
  if (count <= kMostLayersShown) return "";
  return std::to_string(kMostLayersShown) + " of " + std::to_string(count) +
         " layers, evenly spread; all are in metrics.jsonl.";
}

std::string figure_of_run(std::size_t number) {
  return "second_moments_run_" + std::to_string(number);
}

void add_second_moments(const std::vector<NamedRun>& runs, Page& page) {
  page.add_heading("Activation second moments");
  page.add_paragraph(
      "E[a²] is the mean square of a layer's inputs over the last step of an epoch: what AdaAct "
      "divides by, measured for every optimizer.");
  std::vector<Markup> figures{
      page.figure(second_moments_by_layer(runs), "second_moments_by_layer", "")};
  for (std::size_t index = 0; index < runs.size(); ++index) {
    if (runs[index].history.epochs.empty()) continue;
    figures.push_back(page.figure(second_moments_over_epochs(runs[index]), figure_of_run(index + 1),
                                  layers_caption(runs[index].history)));
  }
  page.add_figures(figures);
}

void add_settings(const std::vector<NamedRun>& runs, Page& page) {
  page.add_heading(runs.size() == 1 ? "Settings" : "What differs");
  const auto common = common_settings(runs);
  if (runs.size() == 1) {
    page.add_table(common);
    return;
  }
  const auto differing = differing_settings(runs);
  if (differing.rows.empty()) {
    page.add_paragraph("Nothing: the runs have the same configuration.");
  } else {
    page.add_table(differing);
  }
  const auto summary =
      element("summary", text(std::to_string(common.rows.size()) + " settings are the same"));
  page.add(element("details", summary + to_markup(common)));
}

void add_origin(const std::vector<NamedRun>& runs, const ReportOptions& options, Page& page) {
  page.add_heading("How this was made");
  if (!options.command.empty()) {
    page.add(element("pre", element("code", text(options.command))));
  }
  Markup facts;
  for (const auto& [label, value] : options.facts) {
    facts += element("dt", text(label)) + element("dd", text(value));
  }
  for (const auto& run : runs) {
    if (run.history.folder == run.name) continue;
    facts += element("dt", text(run.name)) +
             element("dd", element("code", text(run.history.folder.string())));
  }
  if (!facts.html.empty()) page.add(element("dl", facts));
}

}  // namespace

void write_report(const std::vector<std::filesystem::path>& folders,
                  const std::filesystem::path& path, const ReportOptions& options) {
  write_report(read_runs(folders), path, options);
}

void write_report(const std::vector<NamedRun>& runs, const std::filesystem::path& path,
                  const ReportOptions& options) {
  Page page(path, options.title.empty() ? title_for(runs) : options.title);
  page.add_paragraph(lead(runs), "lead");
  page.add_table(summary_table(runs));
  add_curves(runs, page);
  add_second_moments(runs, page);
  add_settings(runs, page);
  add_origin(runs, options, page);
  page.write();
  // An earlier report may have had more runs.
  for (auto run = runs.size() + 1; page.remove_figure(figure_of_run(run)); ++run) {
  }
}

}  // namespace adaact
