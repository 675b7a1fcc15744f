#include "sweep/lr_range_page.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "report/format.h"
#include "report/page.h"
#include "report/plot.h"
#include "sweep/origin.h"

namespace adaact {
namespace {

/// Losses beyond this would flatten all others.
double highest_shown(const LrRangeResult& found) { return 2.0 * found.first_loss; }

/// A line from the axis up to the loss at the start.
Series mark_at(double rate, const std::string& name, const LrRangeResult& found, double least,
               std::size_t style) {
  return {name + ": " + rounded(rate), {{rate, least}, {rate, found.first_loss}}, style};
}

Plot loss_plot(const LrRangeResult& found) {
  Axis rates{"learning rate"};
  rates.scale = Scale::Logarithmic;
  Plot plot{"Loss against learning rate", std::move(rates), {"train loss"}, {}};
  Series single{"single batches", {}, 1};
  Series smoothed{"smoothed", {}, 0};
  double least = std::numeric_limits<double>::infinity();
  const auto highest = highest_shown(found);
  for (const auto& point : found.points) {
    if (point.loss <= highest) single.points.push_back({point.learning_rate, point.loss});
    if (point.smoothed <= highest) smoothed.points.push_back({point.learning_rate, point.smoothed});
    least = std::min(least, point.loss);
  }
  plot.series = {std::move(smoothed), std::move(single)};
  if (found.steepest) {
    plot.series.push_back(mark_at(*found.steepest, "steepest descent", found, least, 2));
  }
  if (found.exploded_at) {
    plot.series.push_back(mark_at(*found.exploded_at, "explodes", found, least, 3));
  }
  return plot;
}

Table table_of_suggestions(const LrRangeResult& found) {
  Table table{
      "Learning rates to begin with", {{text("Learning rate"), "number"}, {text("Why"), ""}}, {}};
  const auto add = [&](const std::optional<double>& rate, const char* why) {
    if (rate) table.rows.push_back({{text(rounded(*rate)), "number"}, {text(why), ""}});
  };
  add(found.steepest, "the loss falls fastest");
  add(found.tenth_of_explosion(), "a tenth of where the loss explodes");
  return table;
}

}  // namespace

void write_lr_range_page(const RunConfig& config, const LrRangeResult& found,
                         const std::filesystem::path& path, const ReportOptions& options) {
  Page page(path, "Learning-rate range test");
  page.add_paragraph(config.optimizer + ", " + config.model + " on " + config.dataset + ": " +
                         std::to_string(found.points.size()) +
                         " steps with a learning rate that grows from step to step.",
                     "lead");
  const auto suggestions = table_of_suggestions(found);
  if (suggestions.rows.empty()) {
    page.add_paragraph("The loss neither fell nor exploded: try greater learning rates (--to).");
  } else {
    page.add_table(suggestions);
  }
  page.add_figures({page.figure(loss_plot(found), "loss_by_rate",
                                "Losses of more than twice the first one are left out.")});
  add_origin_of_page(options, page);
  page.write();
}

}  // namespace adaact
