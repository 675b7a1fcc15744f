#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <adaact/report/report.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "io/printable.h"
#include "output.h"
#include "padded.h"
#include "report/named_runs.h"
#include "run_options.h"
#include "shell_word.h"

namespace adaact::app {
namespace {

using nlohmann::ordered_json;

/// A line for each run; what is not known yet is a dash.
void print_table(const std::vector<NamedRun>& runs) {
  std::printf("%-20s  %-10s  %6s  %10s  %10s  %9s  %8s\n", "run", "optimizer", "epochs",
              "train loss", "test top-1", "best", "seconds");
  for (const auto& [name, run] : runs) {
    std::printf("%s  %-10s  %6zu", padded(printable(name), 20).c_str(),
                run.config.optimizer.c_str(), run.epochs.size());
    if (run.epochs.empty()) {
      std::printf("  %10s  %10s  %9s", "-", "-", "-");
    } else {
      const auto& last = run.epochs.back();
      std::printf("  %10.4f  %8.2f %%  %7.2f %%", last.train_loss, 100.0 * last.test.top1,
                  100.0 * run.best_epoch()->test.top1);
    }
    std::printf("  %8.1f", run.seconds());
    const auto lost = run.diverged_in_epoch();
    if (lost) std::printf("  diverged in epoch %ld", *lost);
    std::printf("\n");
  }
}

ordered_json to_json(const RunHistory& run) {
  ordered_json object{{"run", run.folder.string()},
                      {"optimizer", run.config.optimizer},
                      {"finished", run.finished},
                      {"epochs", run.epochs.size()},
                      {"seconds", run.seconds()}};
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

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out = "report.html";
  OutputOptions output;
};

void print_result(const ReportArguments& arguments, const std::vector<NamedRun>& runs) {
  const auto verbosity = arguments.output.verbosity();
  if (verbosity == Verbosity::Quiet) return;
  if (verbosity == Verbosity::Normal) {
    print_table(runs);
    std::printf("the report is in %s\n", arguments.out.c_str());
    return;
  }
  ordered_json result{{"page", arguments.out}, {"runs", ordered_json::array()}};
  for (const auto& run : runs) result["runs"].push_back(to_json(run.history));
  print_json(result);
}

}  // namespace

void add_report_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ReportArguments>();
  auto* command = app.add_subcommand("report", "Draw runs on a page");
  command->add_option("runs", arguments->runs, "Folders of runs, finished or not")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_option(*command, "--out", arguments->out, "The page; its figures go beside it");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &exit_code] {
    ReportOptions options;
    options.command = "adaact report";
    for (const auto& run : arguments->runs) options.command += " " + shell_word(run);
    options.command += " --out " + shell_word(arguments->out);
    options.facts = {{"adaact", ADAACT_VERSION}, {"LibTorch", TORCH_VERSION}};
    const auto runs = read_runs({arguments->runs.begin(), arguments->runs.end()});
    write_report(runs, arguments->out, options);
    print_result(*arguments, runs);
    exit_code = 0;
  });
}

}  // namespace adaact::app
