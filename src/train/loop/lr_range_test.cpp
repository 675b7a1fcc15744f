#include <adaact/train/lr_range_test.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <adaact/optim/non_finite.h>
#include <torch/torch.h>

namespace adaact {
namespace {

constexpr double kExplosion = 4.0;  // times the lowest loss
// How much of the past stays in the average by which an explosion is told from a bad batch. A longer memory would tell
// it late.
constexpr double kMemory = 0.7;

/// Growth from `from` at t = 0 to `to` at t = steps - 1, where it stays.
Schedule exponential_growth(const LrRangeOptions& range, double initial_rate) {
  return [range, initial_rate](std::int64_t t) {
    const auto last = range.steps - 1;
    const auto progress = static_cast<double>(std::min(t, last)) / static_cast<double>(last);
    return range.from / initial_rate * std::pow(range.to / range.from, progress);
  };
}

/// Writes down losses until there are enough of them or one is too high.
class RangeRecorder : public TrainingCallback {
 public:
  explicit RangeRecorder(std::int64_t steps) : steps_(steps) {}

  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (!rate_) {
      result.first_loss = metrics.loss;
    } else if (!done()) {
      add(*rate_, metrics.loss);
    }
    rate_ = metrics.learning_rate;
  }

  /// The optimizer found a gradient that is not finite, after the last step that was told of.
  bool explode() {
    if (rate_) result.exploded_at = rate_;
    return rate_.has_value();
  }

  bool done() const {
    return result.exploded_at || static_cast<std::int64_t>(result.points.size()) == steps_;
  }

  LrRangeResult result;

 private:
  void add(double rate, double loss) {
    result.points.push_back({rate, loss, loss});
    sum_ = kMemory * sum_ + (1.0 - kMemory) * loss;
    weight_ = kMemory * weight_ + (1.0 - kMemory);
    const auto average = sum_ / weight_;
    lowest_ = std::min(lowest_, average);
    // Where almost nothing is left of the loss, four times that is not much either.
    const bool high = average > kExplosion * lowest_ && average > 0.5 * result.first_loss;
    if (!std::isfinite(average) || high) result.exploded_at = rate;
  }

  const std::int64_t steps_;
  std::optional<double> rate_;  // of the step before
  double sum_ = 0.0;
  double weight_ = 0.0;
  double lowest_ = std::numeric_limits<double>::infinity();
};

/// Averages neighbours on both sides, so that nothing moves to higher rates.
void smooth_losses(std::vector<LrRangePoint>& points) {
  const auto count = static_cast<std::int64_t>(points.size());
  const auto reach = std::max<std::int64_t>(1, count / 30);
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0.0;
    double summands = 0.0;
    for (auto j = std::max<std::int64_t>(0, i - reach); j <= std::min(count - 1, i + reach); ++j) {
      sum += points[static_cast<std::size_t>(j)].loss;
      summands += 1.0;
    }
    points[static_cast<std::size_t>(i)].smoothed = sum / summands;
  }
}

std::optional<double> steepest_descent(const std::vector<LrRangePoint>& points) {
  const auto reach = std::max<std::size_t>(1, points.size() / 20);
  if (points.size() <= 2 * reach) return std::nullopt;
  const auto is_lower = [](const LrRangePoint& left, const LrRangePoint& right) {
    return left.smoothed < right.smoothed;
  };
  const auto lowest = std::min_element(points.begin(), points.end(), is_lower) - points.begin();
  const auto end = std::min(points.size() - reach, static_cast<std::size_t>(lowest) + 1);
  std::optional<double> rate;
  double least = 0.0;
  for (auto i = reach; i < end; ++i) {
    const auto slope = points[i + reach].smoothed - points[i - reach].smoothed;
    if (slope >= least) continue;  // rates are evenly spaced
    least = slope;
    rate = points[i].learning_rate;
  }
  return rate;
}

/// The trainer evaluates after each epoch, which a range test has no use for: one image costs nothing.
std::shared_ptr<Dataset> one_image_like(const Dataset& data) {
  const auto& shape = data.shape();
  return std::make_shared<ImageTensorDataset>(
      data.info(), torch::zeros({1, shape.channels, shape.height, shape.width}, torch::kByte),
      torch::zeros({1}, torch::kLong));
}

}  // namespace

void LrRangeOptions::check() const {
  TORCH_CHECK(std::isfinite(from) && from > 0.0, "from is ", from, ", expected a number > 0");
  TORCH_CHECK(std::isfinite(to) && to > from, "to is ", to, ", expected more than ", from,
              ", where it begins");
  TORCH_CHECK(steps >= 10 && steps <= 1'000'000, "steps is ", steps, ", expected 10 to 1000000");
}

std::optional<double> LrRangeResult::tenth_of_explosion() const {
  return exploded_at ? std::optional(*exploded_at / 10.0) : std::nullopt;
}

LrRangeResult lr_range_test(Model& model, torch::optim::Optimizer& optimizer, Loader& train_data,
                            const LrRangeOptions& range, TrainerOptions options) {
  range.check();
  const auto initial_rate = optimizer.param_groups().front().options().get_lr();
  TORCH_CHECK(initial_rate > 0.0, "lr_range_test: the optimizer's learning rate is ", initial_rate,
              ", expected > 0: it is scaled");

  RangeRecorder recorder(range.steps);
  const auto outer_stop = options.should_stop;
  options.should_stop = [&] { return recorder.done() || outer_stop(); };
  options.schedule = exponential_growth(range, initial_rate);
  options.graph = false;
  // A loss is known when the next step begins, hence one more.
  const auto per_epoch = Trainer::steps_per_epoch(train_data, options.accumulation);
  options.epochs = (range.steps + 1 + per_epoch - 1) / per_epoch;
  auto evaluation = LoaderOptions::evaluation();
  evaluation.workers = 0;
  Loader one_image(one_image_like(train_data.dataset()), evaluation);
  Trainer trainer(model, optimizer, train_data, one_image, std::move(options));
  trainer.add_callback(recorder);
  try {
    trainer.run();
  } catch (const NonFiniteError&) {
    if (!recorder.explode()) throw;  // before any step: the data or the model are to blame
  }
  auto result = std::move(recorder.result);
  result.interrupted =
      !result.exploded_at && static_cast<std::int64_t>(result.points.size()) < range.steps;
  smooth_losses(result.points);
  result.steepest = steepest_descent(result.points);
  return result;
}

}  // namespace adaact
