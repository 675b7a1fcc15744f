#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <adaact/report/report.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/printable.h"
#include "output.h"
#include "report/format.h"
#include "report/group_summary.h"
#include "report/named_runs.h"
#include "report/run_groups.h"
#include "run_options.h"
#include "shell_word.h"
#include "text_table.h"
#include "watch.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

std::string marked(const Compared& compared, std::string (*format)(const MeanAndError&)) {
  return (compared.is_best ? "*" : "") + format(compared.value);
}

bool any_of(const std::vector<GroupSummary>& all, bool (*holds)(const GroupSummary&)) {
  return std::any_of(all.begin(), all.end(), holds);
}

/// A line for each group of seeds; what is not known yet is a dash. The columns that say the same of all
/// groups are left out.
void print_table(const std::vector<GroupSummary>& summaries) {
  using Align = TextTable::Align;
  const bool with_seeds =
      any_of(summaries, [](const GroupSummary& s) { return s.seeds.size() > 1; });
  const bool with_data = std::any_of(summaries.begin(), summaries.end(), [&](const auto& summary) {
    return summary.data != summaries.front().data;
  });
  TextTable table;
  table.add_column("run", 20, Align::Left);
  if (with_seeds) table.add_column("seeds", 0, Align::Right);
  if (with_data) table.add_column("data", 0, Align::Left);
  table.add_column("optimizer", 10, Align::Left);
  table.add_column("epochs", 6, Align::Right);
  table.add_column("train loss", 10, Align::Right);
  table.add_column("test top-1", 10, Align::Right);
  table.add_column("best", 9, Align::Right);
  table.add_column("seconds", 8, Align::Right);
  for (const auto& summary : summaries) {
    std::vector<std::string> row{printable(summary.name)};
    if (with_seeds) row.push_back(std::to_string(summary.seeds.size()));
    if (with_data) row.push_back(printable(summary.data));
    row.insert(row.end(), {summary.optimizer, summary.epochs, decimal(summary.train_loss.value),
                           marked(summary.final_top1, percent), marked(summary.best_top1, percent),
                           fixed(summary.seconds, 1)});
    if (!summary.state.empty()) row.push_back(summary.state);
    table.add_row(std::move(row));
  }
  table.print();
  if (any_of(summaries, [](const GroupSummary& s) { return s.final_top1.is_best; })) {
    std::printf("* the best on the same data\n");
  }
}

ordered_json to_json(const RunHistory& run) {
  ordered_json object{{"run", run.folder.string()},  {"optimizer", run.config.optimizer},
                      {"seed", run.config.seed},     {"finished", run.finished},
                      {"epochs", run.epochs.size()}, {"seconds", run.seconds()}};
  const auto lost = run.diverged_in_epoch();
  if (lost) object["diverged_in_epoch"] = *lost;
  if (!run.epochs.empty()) {
    const auto& last = run.epochs.back();
    object["train_loss"] = last.train_loss;
    object["test_top1"] = last.test.top1;
    object["best_test_top1"] = run.best_epoch()->test.top1;
  }
  return object;
}

/// Numbers that are not there are null.
ordered_json to_json(const GroupSummary& summary, const RunGroup& group) {
  ordered_json object{{"name", summary.name},   {"model", summary.model},
                      {"data", summary.data},   {"optimizer", summary.optimizer},
                      {"seeds", summary.seeds}, {"runs", ordered_json::array()},
                      {"state", summary.state}, {"seconds", summary.seconds}};
  for (const auto* run : group.runs) object["runs"].push_back(run->history.folder.string());
  const auto add = [&](const std::string& name, const Compared& compared) {
    object[name + "_mean"] = compared.value.mean;
    object[name + "_standard_error"] = compared.value.standard_error;
  };
  add("train_loss", summary.train_loss);
  add("test_loss", summary.test_loss);
  add("test_top1", summary.final_top1);
  add("best_test_top1", summary.best_top1);
  return object;
}

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out = "report.html";
  bool watch = false;
  int port = 0;
  OutputOptions output;
};

void print_result(const ReportArguments& arguments, const std::vector<NamedRun>& runs) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) return;
  const auto groups = groups_of(runs);
  const auto summaries = summaries_of(groups);
  if (verbosity == Verbosity::Normal) {
    print_table(summaries);
    std::printf("the report is in %s\n", arguments.out.c_str());
    return;
  }
  ordered_json result{
      {"page", arguments.out}, {"runs", ordered_json::array()}, {"groups", ordered_json::array()}};
  for (const auto& run : runs) result["runs"].push_back(to_json(run.history));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    result["groups"].push_back(to_json(summaries[i], groups[i]));
  }
  print_json(result);
}

ReportOptions options_of(const ReportArguments& arguments) {
  ReportOptions options;
  options.command = "adaact report";
  for (const auto& run : arguments.runs) options.command += " " + shell_word(run);
  options.command += arguments.watch ? " --watch" : " --out " + shell_word(arguments.out);
  options.facts = {{"adaact", ADAACT_VERSION}, {"LibTorch", TORCH_VERSION}};
  return options;
}

}  // namespace

void add_report_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ReportArguments>();
  auto* command = app.add_subcommand("report", "Draw runs on a page");
  command->add_option("runs", arguments->runs, "Folders of runs, or folders that hold runs")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto* out = add_option(*command, "--out", arguments->out, "The page; its figures go beside it");
  auto* watch =
      command->add_flag("--watch", arguments->watch, "Serve the page here while runs train");
  auto* port = command->add_option("--port", arguments->port, "Of --watch; 0: any that is free")
                   ->check(CLI::Range(0, 65535));
  add_output_options(*command, arguments->output);
  command->callback([arguments, out, watch, port, &exit_code] {
    if (watch->count() > 0 && out->count() > 0) throw CLI::ExcludesError("--watch", "--out");
    if (watch->count() == 0 && port->count() > 0) throw CLI::RequiresError("--port", "--watch");
    const std::vector<std::filesystem::path> folders{arguments->runs.begin(),
                                                     arguments->runs.end()};
    if (arguments->watch) {
      const auto chosen = port->count() > 0 ? std::optional(arguments->port) : std::nullopt;
      exit_code =
          watch_runs(folders, options_of(*arguments), chosen, arguments->output.verbosity());
      return;
    }
    const auto runs = read_runs(folders);
    write_report(runs, arguments->out, options_of(*arguments));
    print_result(*arguments, runs);
    exit_code = 0;
  });
}

}  // namespace adaact::app
