#include "report/courses.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "report/mean_and_error.h"

namespace adaact {
namespace {

/// A quantity at some time of a training.
struct Place {
  double time = 0.0;     // in steps or in epochs, the same for all seeds of a group
  double seconds = 0.0;  // of training until then
  double value = 0.0;
  double error = 0.0;
};
using Places = std::vector<Place>;

/// The means of neighbours, so that no more than `count` are left. Values that are not finite are left out.
Places binned(const Places& all, std::size_t count) {
  Places bins;
  const auto number = std::min(count, all.size());
  for (std::size_t bin = 0; bin < number; ++bin) {
    Place sum;
    double summands = 0.0;
    for (auto i = bin * all.size() / number; i < (bin + 1) * all.size() / number; ++i) {
      if (!std::isfinite(all[i].value)) continue;
      sum.time += all[i].time;
      sum.seconds += all[i].seconds;
      sum.value += all[i].value;
      summands += 1.0;
    }
    if (summands == 0.0) continue;
    bins.push_back({sum.time / summands, sum.seconds / summands, sum.value / summands});
  }
  return bins;
}

double step_value(const StepMetrics& step, Quantity quantity) {
  switch (quantity) {
    case Quantity::TrainLoss:
      return step.loss;
    case Quantity::LearningRate:
      return step.learning_rate;
    case Quantity::GradientNorm:
      return step.gradient_norm;
    default:
      return 1000.0 * step.seconds;
  }
}

double epoch_value(const EpochMetrics& epoch, Quantity quantity) {
  switch (quantity) {
    case Quantity::TrainLoss:
      return epoch.train_loss;
    case Quantity::TestLoss:
      return epoch.test.loss;
    default:
      return 100.0 * epoch.test.top1;
  }
}

bool is_measured_in_epochs(Quantity quantity) {
  return quantity == Quantity::TestLoss || quantity == Quantity::TestAccuracy;
}

Places over_epochs(const RunHistory& run, Quantity quantity) {
  Places places;
  for (const auto& epoch : run.epochs) {
    places.push_back(
        {static_cast<double>(epoch.epoch + 1), epoch.seconds, epoch_value(epoch, quantity)});
  }
  return binned(places, kMostPlaces);
}

Places over_steps(const RunHistory& run, Quantity quantity) {
  Places places;
  double seconds = 0.0;
  for (const auto& step : run.steps) {
    seconds += step.seconds + step.wait_seconds;
    places.push_back({static_cast<double>(step.step), seconds, step_value(step, quantity)});
  }
  return binned(places, kMostPlaces);
}

/// What lies between two places is on the straight line between them.
Place at_time(const Places& places, double time) {
  const auto after = std::lower_bound(places.begin(), places.end(), time,
                                      [](const Place& place, double t) { return place.time < t; });
  if (after == places.begin()) return places.front();
  if (after == places.end()) return places.back();
  const auto before = std::prev(after);
  const auto length = after->time - before->time;
  const auto share = length > 0.0 ? (time - before->time) / length : 1.0;
  return {time, before->seconds + share * (after->seconds - before->seconds),
          before->value + share * (after->value - before->value)};
}

Places mean_of_seeds(const std::vector<Places>& seeds) {
  if (seeds.empty()) return {};
  if (seeds.size() == 1) return seeds.front();
  auto begin = -std::numeric_limits<double>::infinity();
  auto end = std::numeric_limits<double>::infinity();
  for (const auto& seed : seeds) {
    begin = std::max(begin, seed.front().time);
    end = std::min(end, seed.back().time);
  }
  Places means;
  for (const auto& place : seeds.front()) {
    if (place.time < begin || place.time > end) continue;
    std::vector<double> values;
    double seconds = 0.0;
    for (const auto& seed : seeds) {
      const auto there = at_time(seed, place.time);
      values.push_back(there.value);
      seconds += there.seconds;
    }
    const auto [mean, error] = mean_and_error(values);
    means.push_back({place.time, seconds / static_cast<double>(seeds.size()), mean, error});
  }
  return means;
}

std::optional<double> steps_per_epoch(const RunGroup& group) {
  for (const auto* run : group.runs) {
    if (const auto steps = run->history.steps_per_epoch()) return steps;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Point> course_of(const RunGroup& group, Quantity quantity, Against against) {
  const bool any_steps = std::any_of(group.runs.begin(), group.runs.end(), [](const NamedRun* run) {
    return !run->history.steps.empty();
  });
  const bool in_epochs =
      is_measured_in_epochs(quantity) || (quantity == Quantity::TrainLoss && !any_steps);
  std::vector<Places> seeds;
  for (const auto* run : group.runs) {
    auto places =
        in_epochs ? over_epochs(run->history, quantity) : over_steps(run->history, quantity);
    if (!places.empty()) seeds.push_back(std::move(places));
  }
  const auto steps = in_epochs ? std::optional(1.0) : steps_per_epoch(group);
  if (against == Against::Epochs && !steps) return {};
  std::vector<Point> points;
  for (const auto& place : mean_of_seeds(seeds)) {
    const auto x = against == Against::Seconds ? place.seconds : place.time / *steps;
    points.push_back({x, place.value, place.error});
  }
  return points;
}

}  // namespace adaact
