#include "train/run/metrics_record.h"

#include <limits>
#include <string>

#include <c10/util/Exception.h>

#include "io/json_text.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr char kKind[] = "kind";
constexpr char kUpdateNorm[] = "update_norm";
constexpr char kSecondMoments[] = "second_moments";
constexpr char kActivationVariances[] = "activation_variances";

/// Tells `visit` the name and the place of each number: for writing and for reading.
template <typename Metrics, typename Visitor>
void visit_step(Metrics& metrics, Visitor&& visit) {
  visit("step", metrics.step);
  visit("epoch", metrics.epoch);
  visit("loss", metrics.loss);
  visit("top1", metrics.top1);
  visit("learning_rate", metrics.learning_rate);
  visit("gradient_norm", metrics.gradient_norm);
  visit("seconds", metrics.seconds);
  visit("wait_seconds", metrics.wait_seconds);
  visit("images_per_second", metrics.images_per_second);
}

template <typename Metrics, typename Visitor>
void visit_epoch(Metrics& metrics, Visitor&& visit) {
  visit("step", metrics.step);
  visit("epoch", metrics.epoch);
  visit("train_loss", metrics.train_loss);
  visit("train_top1", metrics.train_top1);
  visit("test_loss", metrics.test.loss);
  visit("test_top1", metrics.test.top1);
  visit("test_top5", metrics.test.top5);
  visit("seconds", metrics.seconds);
  visit("images_per_second", metrics.images_per_second);
}

template <typename Metrics, typename Visitor>
void visit_divergence(Metrics& metrics, Visitor&& visit) {
  visit("step", metrics.step);
  visit("epoch", metrics.epoch);
  visit("message", metrics.message);
}

template <typename Metrics, typename Visitor>
void visit_variance(Metrics& metrics, Visitor&& visit) {
  visit("mean", metrics.mean);
  visit("lowest_mean", metrics.lowest_mean);
  visit("highest_mean", metrics.highest_mean);
  visit("lowest", metrics.lowest);
  visit("highest", metrics.highest);
  visit.if_there("lowest_moment", metrics.lowest_moment);
  visit.if_there("highest_moment", metrics.highest_moment);
}

struct Writer {
  ordered_json& record;
  template <typename Value>
  void operator()(const char* name, const Value& value) const {
    record[name] = value;
  }
  void if_there(const char* name, double value) const { record[name] = value; }
};

double number(const ordered_json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

struct Reader {
  const ordered_json& record;
  void operator()(const char* name, std::int64_t& value) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 53;  // as far as a double counts
    value = whole_number(record.at(name), name);
    TORCH_CHECK(value >= 0 && value <= kMost, name, " is ", value, ", expected 0 to ", kMost);
  }
  void operator()(const char* name, double& value) const { value = number(record.at(name)); }
  void operator()(const char* name, std::string& value) const { record.at(name).get_to(value); }
  /// A number that records of earlier versions do not have: then NaN.
  void if_there(const char* name, double& value) const {
    value = number(record.contains(name) ? record.at(name) : ordered_json());
  }
};

}  // namespace

ordered_json to_record(const StepMetrics& step) {
  ordered_json record{{kKind, kStepRecord}};
  visit_step(step, Writer{record});
  if (step.update_norm) record[kUpdateNorm] = *step.update_norm;
  return record;
}

ordered_json to_record(const EpochMetrics& epoch) {
  ordered_json record{{kKind, kEpochRecord}};
  visit_epoch(epoch, Writer{record});
  auto& moments = record[kSecondMoments] = ordered_json::object();
  for (const auto& [layer, moment] : epoch.second_moments) moments[layer] = moment;
  for (const auto& variance : epoch.activation_variances) {
    auto& of_layer = record[kActivationVariances][variance.layer];
    visit_variance(variance, Writer{of_layer});
  }
  return record;
}

ordered_json to_record(const Divergence& divergence) {
  ordered_json record{{kKind, kDivergedRecord}};
  visit_divergence(divergence, Writer{record});
  return record;
}

std::string kind_of(const ordered_json& record) { return record.at(kKind).get<std::string>(); }

StepMetrics step_from(const ordered_json& record) {
  StepMetrics step;
  visit_step(step, Reader{record});
  if (record.contains(kUpdateNorm)) step.update_norm = number(record.at(kUpdateNorm));
  return step;
}

EpochMetrics epoch_from(const ordered_json& record) {
  EpochMetrics epoch;
  visit_epoch(epoch, Reader{record});
  for (const auto& [layer, moment] : record.at(kSecondMoments).items()) {
    epoch.second_moments.emplace_back(layer, number(moment));
  }
  if (!record.contains(kActivationVariances)) return epoch;
  for (const auto& [layer, of_layer] : record.at(kActivationVariances).items()) {
    auto& variance = epoch.activation_variances.emplace_back();
    variance.layer = layer;
    visit_variance(variance, Reader{of_layer});
  }
  return epoch;
}

Divergence divergence_from(const ordered_json& record) {
  Divergence divergence;
  visit_divergence(divergence, Reader{record});
  return divergence;
}

}  // namespace adaact
