#include <adaact/report/report.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "report/details_section.h"
#include "report/format.h"
#include "report/group_summary.h"
#include "report/named_runs.h"
#include "report/page.h"
#include "report/run_groups.h"
#include "report/run_plots.h"
#include "report/run_tables.h"

namespace adaact {
namespace {

/// Of more runs than these what fills pages is folded up, and there are fewer pictures.
constexpr std::size_t kFewRuns = 4;
constexpr std::size_t kPicturesOfManyRuns = 4;

std::string title_for(const std::vector<NamedRun>& runs, const std::vector<RunGroup>& groups) {
  if (runs.empty()) return "Training runs";
  if (runs.size() == 1) return "Training run " + runs.front().name;
  const auto count = std::to_string(runs.size());
  if (groups.size() == 1) return "Training of " + groups.front().name + " with " + count + " seeds";
  return "Comparison of " + count + " training runs";
}

std::string list_of(const std::set<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

/// The best of the groups that were trained on some data; null where none has finished an epoch.
const GroupSummary* best_on(const std::string& data, const std::vector<GroupSummary>& summaries) {
  const GroupSummary* best = nullptr;
  for (const auto& summary : summaries) {
    const auto top1 = summary.best_top1.value.mean;
    if (summary.data != data || !std::isfinite(top1)) continue;
    if (best == nullptr || top1 > best->best_top1.value.mean) best = &summary;
  }
  return best;
}

std::string best_sentence(const GroupSummary& best, const std::string& where, bool alone) {
  auto sentence = "Best test accuracy" + where + ": " + percent(best.best_top1.value);
  if (!alone) sentence += ", " + best.name + " (" + best.optimizer + ")";
  if (best.seeds.size() > 1) {
    sentence +=
        std::string(alone ? "," : "") + " mean of " + std::to_string(best.seeds.size()) + " seeds";
  }
  if (best.best_epoch) {
    sentence += std::string(alone ? "," : "") + " after epoch " + std::to_string(*best.best_epoch);
  }
  return sentence + ".";
}

/// The sentence at the top of a report: what a reader wants to know first.
std::string lead(const std::vector<NamedRun>& runs, const std::vector<GroupSummary>& summaries) {
  if (runs.empty()) return "No run has begun yet.";
  std::set<std::string> models;
  std::set<std::string> data;
  for (const auto& summary : summaries) {
    models.insert(summary.model);
    data.insert(summary.data);
  }
  auto words = list_of(models) + " on " + list_of(data) + ".";
  bool any = false;
  for (const auto& each : data) {
    const auto* best = best_on(each, summaries);
    if (best == nullptr) continue;
    words +=
        " " + best_sentence(*best, data.size() > 1 ? " on " + each : "", summaries.size() == 1);
    any = true;
  }
  if (any) return words;
  const bool may_go_on = std::any_of(runs.begin(), runs.end(),
                                     [](const NamedRun& run) { return !run.history.divergence; });
  return words + (may_go_on ? " No epoch is finished yet." : " No epoch was finished.");
}

bool has_points(const Plot& plot) {
  return std::any_of(plot.series.begin(), plot.series.end(),
                     [](const Series& series) { return !series.points.empty(); });
}

void add_curves(const std::vector<RunGroup>& groups, Page& page) {
  page.add_heading("Curves");
  const bool several_seeds = std::any_of(
      groups.begin(), groups.end(), [](const RunGroup& group) { return group.runs.size() > 1; });
  if (several_seeds) {
    page.add_paragraph(
        "Of several seeds a curve is the mean, as far as all of them came, in a band of its "
        "standard "
        "error.",
        "note");
  }
  const std::string smoothing =
      "Moving average over 2 % of each run's steps, where that is more than one.";
  const std::string seconds = "Training alone, without evaluation.";
  const auto figure = [&](Quantity quantity, Against against, const char* name,
                          const std::string& caption) {
    return page.figure(course_plot(groups, quantity, against), name, caption);
  };
  std::vector<Markup> figures{
      figure(Quantity::TestAccuracy, Against::Epochs, "test_accuracy_epochs", "After each epoch."),
      figure(Quantity::TestAccuracy, Against::Seconds, "test_accuracy_seconds", seconds),
      figure(Quantity::TrainLoss, Against::Epochs, "train_loss_epochs", smoothing),
      figure(Quantity::TrainLoss, Against::Seconds, "train_loss_seconds",
             smoothing + " " + seconds),
      figure(Quantity::TestLoss, Against::Epochs, "test_loss_epochs", "After each epoch.")};
  // What is known of steps alone: runs that were kept for long have none.
  struct OfSteps {
    Quantity quantity;
    const char* name;
    const char* caption;
  };
  for (const auto& [quantity, name, caption] :
       {OfSteps{Quantity::LearningRate, "learning_rate_epochs", ""},
        OfSteps{Quantity::GradientNorm, "gradient_norm_epochs",
                "Of all parameters together, before clipping. Smoothed as the train loss is."},
        OfSteps{Quantity::StepTime, "step_time_epochs",
                "Without waiting for data. Smoothed as the train loss is."}}) {
    const auto plot = course_plot(groups, quantity, Against::Epochs);
    if (has_points(plot)) figures.push_back(page.figure(plot, name, caption));
  }
  page.add_figures(figures);
}

/// `name` tells the page's script what to leave open.
Markup folded(const std::string& name, const std::string& summary, const Markup& content) {
  return element("details", {{"data-name", name}}, element("summary", text(summary)) + content) +
         Markup{"\n"};
}

void add_test_details(const std::vector<NamedRun>& runs, Page& page) {
  const auto with_details = std::count_if(
      runs.begin(), runs.end(), [](const NamedRun& run) { return run.details.has_value(); });
  if (with_details == 0) return;
  page.add_heading("Classes");
  const bool few = runs.size() <= kFewRuns;
  for (const auto& run : runs) {
    if (!run.details) continue;
    const auto section =
        details_section(*run.details, few ? kMostWrongImages : kPicturesOfManyRuns);
    if (few) {
      const auto name = runs.size() == 1 ? Markup{} : element("h3", text(run.name));
      page.add(element("div", {{"class", "of-run"}}, name + section) + Markup{"\n"});
    } else {
      page.add(folded("classes of " + run.name, run.name, section));
    }
  }
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

void add_second_moments(const std::vector<RunGroup>& groups, Page& page) {
  page.add_heading("Activation second moments");
  page.add_paragraph(
      "E[a²] is the mean square of a layer's inputs over the last step of an epoch: what AdaAct "
      "divides by, measured for every optimizer. Of several seeds the first is shown.");
  std::vector<Markup> figures{
      page.figure(second_moments_by_layer(groups), "second_moments_by_layer", "")};
  std::vector<Markup> of_runs;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const auto& run = groups[index].runs.front()->history;
    if (run.epochs.empty()) continue;
    of_runs.push_back(page.figure(second_moments_over_epochs(groups[index].name, run),
                                  figure_of_run(index + 1), layers_caption(run)));
  }
  if (groups.size() > kFewRuns && !of_runs.empty()) {
    page.add_figures(figures);
    page.add(folded("second moments", "E[a²] over epochs, of each run", figures_markup(of_runs)));
    return;
  }
  figures.insert(figures.end(), of_runs.begin(), of_runs.end());
  page.add_figures(figures);
}

void add_settings(const std::vector<RunGroup>& groups, Page& page) {
  const bool alone = groups.size() == 1 && groups.front().runs.size() == 1;
  page.add_heading(alone ? "Settings" : "What differs");
  const auto common = common_settings(groups);
  if (alone) {
    page.add_table(common);
    return;
  }
  const auto differing = differing_settings(groups);
  if (differing.rows.empty()) {
    page.add_paragraph("Nothing: the runs have the same configuration.");
  } else {
    page.add_table(differing);
  }
  page.add(folded("settings", std::to_string(common.rows.size()) + " settings are the same",
                  to_markup(common)));
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

void fill(Page& page, const std::vector<NamedRun>& runs, const std::vector<RunGroup>& groups,
          const ReportOptions& options) {
  const auto summaries = summaries_of(groups);
  page.add_paragraph(lead(runs, summaries), "lead");
  if (!runs.empty()) {
    page.add_table(summary_table(summaries));
    add_curves(groups, page);
    add_test_details(runs, page);
    add_second_moments(groups, page);
    add_settings(groups, page);
  }
  add_origin(runs, options, page);
}

std::string chosen_title(const std::vector<NamedRun>& runs, const std::vector<RunGroup>& groups,
                         const ReportOptions& options) {
  return options.title.empty() ? title_for(runs, groups) : options.title;
}

}  // namespace

void write_report(const std::vector<std::filesystem::path>& folders,
                  const std::filesystem::path& path, const ReportOptions& options) {
  write_report(read_runs(folders), path, options);
}

void write_report(const std::vector<NamedRun>& runs, const std::filesystem::path& path,
                  const ReportOptions& options) {
  const auto groups = groups_of(runs);
  Page page(path, chosen_title(runs, groups, options));
  fill(page, runs, groups, options);
  page.write();
  // An earlier report may have had more runs.
  for (auto run = groups.size() + 1; page.remove_figure(figure_of_run(run)); ++run) {
  }
}

std::string live_report(const std::vector<NamedRun>& runs, const ReportOptions& options,
                        const std::string& version) {
  const auto groups = groups_of(runs);
  Page page(chosen_title(runs, groups, options));
  fill(page, runs, groups, options);
  return page.html(version);
}

}  // namespace adaact
