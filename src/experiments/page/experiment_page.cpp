#include "experiments/page/experiment_page.h"

#include <algorithm>
#include <map>

#include "experiments/page/curves.h"
#include "experiments/page/departures.h"
#include "experiments/page/titles.h"
#include "experiments/shelf/divergence.h"
#include "io/joined.h"
#include "report/format.h"
#include "train/run/environment.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

void add_notice(const std::string& heading, const std::string& sentence, Page& page) {
  page.add(
      element("p", {{"class", "notice"}}, element("strong", text(heading)) + text(" " + sentence)) +
      Markup{"\n"});
}

/// "5 of 35 runs"; empty where all that were planned are there.
template <typename Pieces, typename IsMissing>
std::string part_of(const Pieces& pieces, std::size_t planned, const char* what,
                    const IsMissing& is_missing) {
  const auto missing =
      static_cast<std::size_t>(std::count_if(pieces.begin(), pieces.end(), is_missing));
  if (missing == 0) return "";
  return std::to_string(planned - missing) + " of " + std::to_string(planned) + " " + what;
}

/// "9 runs in bf16, 1 in tf32"
std::string runs_in_other_precision(const Found& found) {
  std::map<std::string, int> counts;
  for (const auto& run : found.runs) {
    if (run.history && run.history->config.precision != "fp32") {
      ++counts[run.history->config.precision];
    }
  }
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto& [precision, count] : counts) {
    parts.push_back(std::to_string(count) + (count == 1 ? " run in " : " runs in ") + precision);
  }
  return joined(parts);
}

void add_notices(const ExperimentPlan& plan, const std::vector<std::string>& departures,
                 const Found& found, Page& page) {
  if (!departures.empty()) {
    add_notice("This is not the paper's setting:", joined(departures) + ".", page);
  }
  if (!plan.obstacle.empty()) {
    add_notice("This version cannot carry it out:", plan.obstacle + ".", page);
  }
  if (const auto rounded_runs = runs_in_other_precision(found); !rounded_runs.empty()) {
    add_notice("Not in float32, which the paper's are taken to be in:", rounded_runs + ".", page);
  }
  std::vector<std::string> parts{
      part_of(found.runs, plan.runs.size(), "runs",
              [](const Found::Run& run) { return !run.history; }),
      part_of(found.measurements, plan.measurements.size(), "measurements",
              [](const Found::Measurement& measurement) { return !measurement.measured; })};
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  if (!parts.empty()) add_notice("Not all is there yet:", joined(parts) + ".", page);
}

void add_findings(const std::vector<Finding>& findings, Page& page) {
  if (findings.empty()) return;
  page.add_heading("What the paper says, and what was measured");
  Table table{"Findings",
              {{text("The paper"), "wide"}, {text("Measured"), "wide"}, {text("Verdict"), ""}},
              {}};
  table.shows_name = false;
  for (const auto& finding : findings) {
    const auto* style = finding.verdict == Finding::Verdict::Disagrees ? "best" : "";
    table.rows.push_back({{text(finding.claim), "wide"},
                          {text(finding.measured), "wide"},
                          {text(verdict_text(finding.verdict)), style}});
  }
  page.add_table(table);
}

std::string machine_of(const RunConfig& config) {
  return config.device + ", " + config.precision +
         (config.memory_format == "contiguous" ? "" : ", " + config.memory_format);
}

Cell accuracy_cell(const RunHistory& run) {
  auto content = text(percent(final_top1_of_run(run)));
  const auto state = divergence_text({&run});
  if (!state.empty()) content += element("span", {{"class", "state"}}, text(state));
  return {content, "number"};
}

/// The time of training; of a run that diverged, until the last epoch that it finished.
std::string time_of(const RunHistory& run) {
  return run.epochs.empty() ? kNothing : duration(run.epochs.back().seconds);
}

void add_runs(const Found& found, Page& page) {
  Table table{"Runs", {}, {}};
  table.shows_name = false;
  for (const char* heading : {"Series", "Data", "Model"}) {
    table.heading.push_back({text(heading), ""});
  }
  for (const char* heading : {"Seed", "Test top‑1", "Training time"}) {
    table.heading.push_back({text(heading), "number"});
  }
  for (const char* heading : {"Device", "Folder"}) table.heading.push_back({text(heading), ""});
  for (const auto& [planned, run] : found.runs) {
    if (!run) continue;
    const auto& config = run->config;
    table.rows.push_back({{text(planned.series), ""},
                          {text(dataset_title(config.dataset)), ""},
                          {text(model_title(config.model)), ""},
                          {text(std::to_string(config.seed)), "number"},
                          accuracy_cell(*run),
                          {text(time_of(*run)), "number"},
                          {text(machine_of(config)), ""},
                          {element("code", text(run->folder.string())), "wide"}});
  }
  if (table.rows.empty()) return;
  page.add_heading("Runs");
  const auto summary =
      std::to_string(table.rows.size()) + (table.rows.size() == 1 ? " run" : " runs");
  page.add(element("details", element("summary", text(summary)) + to_markup(table)));
}

std::string in_one_line(const ordered_json& environment) {
  std::vector<std::string> words;
  for (const auto& [name, value] : environment.items()) {
    if (name == "started") continue;  // a time, of which no two are alike
    words.push_back(name + " " + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return joined(words);
}

/// The machines and versions that a run was carried out with, one line for each; nothing where its
/// folder does not tell.
std::vector<std::string> environments_of(const RunHistory& run) {
  std::vector<std::string> lines;
  for (const auto& entry : environments_in(run.folder)) lines.push_back(in_one_line(entry));
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

void add_origin(const Found& found, const PageOrigin& origin, Page& page) {
  page.add_heading("How this was made");
  page.add(element("pre", element("code", text(origin.command))));
  Markup facts;
  const auto add_fact = [&](const std::string& label, const std::string& value) {
    facts += element("dt", text(label)) + element("dd", text(value));
  };
  for (const auto& [label, value] : origin.facts) add_fact(label, value);
  const auto add_environments = [&](const std::map<std::string, int>& counts,
                                    const std::string& what) {
    for (const auto& [environment, count] : counts) {
      add_fact(std::to_string(count) + " " + what + (count == 1 ? "" : "s"), environment);
    }
  };
  std::map<std::string, int> of_runs;
  for (const auto& run : found.runs) {
    if (!run.history) continue;
    const auto environments = environments_of(*run.history);
    if (environments.empty()) ++of_runs["not recorded"];
    for (const auto& environment : environments) ++of_runs[environment];
  }
  std::map<std::string, int> of_measurements;
  for (const auto& [planned, measured] : found.measurements) {
    if (!measured || !measured->values.contains(kEnvironment)) continue;
    ++of_measurements[in_one_line(measured->values.at(kEnvironment))];
  }
  add_environments(of_runs, "run");
  add_environments(of_measurements, "measurement");
  page.add(element("dl", facts));
}

}  // namespace

std::string verdict_text(Finding::Verdict verdict) {
  switch (verdict) {
    case Finding::Verdict::Agrees:
      return "agrees";
    case Finding::Verdict::Disagrees:
      return "disagrees";
    case Finding::Verdict::Open:
      break;
  }
  return "open";
}

void write_experiment_page(const Experiment& experiment, const ExperimentForm& form,
                           const Found& found, const std::filesystem::path& path,
                           const PageOrigin& origin) {
  const auto departures = departures_from_paper(experiment, form);
  Page page(path, experiment.title());
  page.add_paragraph(experiment.shows(), "lead");
  add_notices(experiment.plan(form), departures, found, page);
  experiment.draw(found, page);
  if (departures.empty()) add_findings(experiment.findings(found), page);
  add_runs(found, page);
  add_origin(found, origin, page);
  page.write();
}

}  // namespace adaact
