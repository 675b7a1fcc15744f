#include "sweep/sweep_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include <adaact/data/random_stream.h>
#include <adaact/optim/registry.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/joined.h"
#include "io/json_text.h"
#include "io/near_miss.h"

namespace adaact {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kLearningRate[] = "lr";
constexpr char kWeightDecay[] = "weight_decay";
constexpr std::int64_t kMostTrials = 10'000;
constexpr int kMostRedraws = 1000;

template <typename Value>
void drop_repeated(std::vector<Value>& values) {
  for (auto value = values.begin(); value != values.end();) {
    value = std::find(values.begin(), value, *value) == value ? value + 1 : values.erase(value);
  }
}

void check_rates(const std::vector<double>& rates) {
  for (const auto rate : rates) {
    TORCH_CHECK(std::isfinite(rate) && rate > 0.0, "lr is ", rate, ", expected numbers > 0");
  }
}

const std::vector<double>& rates_of(const SweepPlan& plan, const std::string& optimizer) {
  const auto own = plan.learning_rates_of.find(optimizer);
  return own == plan.learning_rates_of.end() ? plan.learning_rates : own->second;
}

void check_optimizers(const SweepPlan& plan) {
  const auto known = optimizer_names();
  const auto check_known = [&](const char* option, const std::string& name) {
    TORCH_CHECK(std::find(known.begin(), known.end(), name) != known.end(), option, " has '", name,
                "', expected some of: ", joined(known), did_you_mean(name, known));
  };
  TORCH_CHECK(!plan.optimizers.empty(), "optimizers are empty, expected some of: ", joined(known));
  for (const auto& name : plan.optimizers) {
    check_known("optimizers", name);
    TORCH_CHECK(!rates_of(plan, name).empty(), "optimizer '", name,
                "' has no learning rates, expected some of every optimizer (--lr) or of this one "
                "(--lr-of ",
                name, "=…)");
  }
  for (const auto& [name, rates] : plan.learning_rates_of) {
    check_known("lr-of", name);
    const auto& chosen = plan.optimizers;
    TORCH_CHECK(std::find(chosen.begin(), chosen.end(), name) != chosen.end(), "lr-of has '", name,
                "', which is not among the optimizers ", joined(chosen));
    check_rates(rates);
  }
}

/// Between these, or the one value that they are.
struct DrawRange {
  double low = 0.0;
  double high = 0.0;

  static DrawRange of(const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return {*low, *high};
  }
  bool is_point() const { return low == high; }
};

void check_draws(const SweepPlan& plan) {
  TORCH_CHECK(plan.draws >= 0 && plan.draws <= kMostTrials, "draws is ", plan.draws,
              ", expected 0 to ", kMostTrials);
  if (plan.draws == 0) return;
  const auto& decays = plan.weight_decays;
  const bool one_decay = decays.empty() || DrawRange::of(decays).is_point();
  TORCH_CHECK(one_decay || DrawRange::of(decays).low > 0.0,
              "weight_decay is 0, expected numbers > 0 where it is drawn: draws are log-uniform");
  for (const auto& optimizer : plan.optimizers) {
    TORCH_CHECK(!one_decay || !DrawRange::of(rates_of(plan, optimizer)).is_point(), "draws is ",
                plan.draws, ", but optimizer '", optimizer,
                "' has one learning rate: expected two at least to draw between");
  }
}

/// A log-uniform number with three digits, so that the name of a trial is readable.
double draw(RandomStream& random, const DrawRange& range) {
  const double place = random.uniform();
  if (range.is_point()) return range.low;
  const double exact = range.low * std::pow(range.high / range.low, place);
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.2e", exact);
  return std::clamp(std::strtod(digits, nullptr), range.low, range.high);
}

struct Values {
  double learning_rate = 0.0;
  double weight_decay = 0.0;  // NaN: the optimizer's own

  std::pair<double, double> key() const { return {learning_rate, weight_decay}; }
};

/// The weight decays to try, where NaN stands for the optimizer's own.
std::vector<double> decays_of(const SweepPlan& plan) {
  return plan.weight_decays.empty() ? std::vector<double>{std::nan("")} : plan.weight_decays;
}

std::vector<Values> drawn_values(const SweepPlan& plan, const std::string& optimizer) {
  const auto rates = DrawRange::of(rates_of(plan, optimizer));
  const bool draw_decay = !plan.weight_decays.empty();
  const auto decays = draw_decay ? DrawRange::of(plan.weight_decays) : DrawRange{};
  std::vector<Values> values;
  std::set<std::pair<double, double>> taken;
  for (std::int64_t number = 0; number < plan.draws; ++number) {
    RandomStream random(plan.base.seed, RandomPurpose::Sweep, /*epoch=*/0,
                        static_cast<std::uint32_t>(number));
    bool is_new = false;
    for (int attempt = 0; attempt < kMostRedraws && !is_new; ++attempt) {
      Values drawn;
      drawn.learning_rate = draw(random, rates);
      drawn.weight_decay = draw_decay ? draw(random, decays) : 0.0;
      is_new = taken.insert(drawn.key()).second;
      if (!draw_decay) drawn.weight_decay = std::nan("");
      if (is_new) values.push_back(drawn);
    }
    TORCH_CHECK(is_new, "draws is ", plan.draws,
                ", but with three digits there are hardly more than ", values.size(),
                " different ones; give a wider range or fewer draws");
  }
  return values;
}

std::vector<Values> grid_values(const SweepPlan& plan, const std::string& optimizer) {
  std::vector<Values> values;
  for (const auto rate : rates_of(plan, optimizer)) {
    for (const auto decay : decays_of(plan)) values.push_back({rate, decay});
  }
  return values;
}

json given_options(const SweepPlan& plan) {
  auto options = parse_json<json>(plan.base.optimizer_options, "optimizer_options");
  TORCH_CHECK(options.is_object(), "optimizer_options is '", plan.base.optimizer_options,
              "', expected a JSON object");
  for (const auto* swept : {kLearningRate, kWeightDecay}) {
    TORCH_CHECK(!options.contains(swept), "optimizer_options has '", swept,
                "', which a sweep chooses; give its values with --lr and --weight-decay");
  }
  return options;
}

Trial trial_of(const SweepPlan& plan, const std::string& optimizer, const Values& values) {
  auto options = given_options(plan);
  options[kLearningRate] = values.learning_rate;
  if (!std::isnan(values.weight_decay)) options[kWeightDecay] = values.weight_decay;
  Trial trial;
  trial.config = plan.base;
  trial.config.optimizer = optimizer;
  trial.config.optimizer_options = complete_options(optimizer, options.dump());
  trial.learning_rate = values.learning_rate;
  trial.weight_decay = json::parse(trial.config.optimizer_options).at(kWeightDecay).get<double>();
  trial.name =
      optimizer + "-lr-" + shortest(trial.learning_rate) + "-wd-" + shortest(trial.weight_decay);
  return trial;
}

std::vector<double> numbers(const ordered_json& list) { return list.get<std::vector<double>>(); }

}  // namespace

std::string shortest(double value) {
  char digits[40];
  for (int precision = 1; precision <= 17; ++precision) {
    std::snprintf(digits, sizeof(digits), "%.*g", precision, value);
    if (std::strtod(digits, nullptr) == value) break;
  }
  return digits;
}

std::size_t SweepPlan::size() const {
  std::size_t trials = 0;
  for (const auto& optimizer : optimizers) {
    trials += draws > 0 ? static_cast<std::size_t>(draws)
                        : rates_of(*this, optimizer).size() * decays_of(*this).size();
  }
  return trials;
}

void SweepPlan::resolve() {
  drop_repeated(optimizers);
  drop_repeated(learning_rates);
  drop_repeated(weight_decays);
  for (auto& own : learning_rates_of) drop_repeated(own.second);
  check_rates(learning_rates);
  for (const auto decay : weight_decays) {
    TORCH_CHECK(std::isfinite(decay) && decay >= 0.0, "weight_decay is ", decay,
                ", expected numbers ≥ 0");
  }
  check_optimizers(*this);
  check_draws(*this);
  TORCH_CHECK(static_cast<std::int64_t>(size()) <= kMostTrials, "the sweep has ", size(),
              " trials, expected at most ", kMostTrials);
  const auto options = given_options(*this).dump();
  base.optimizer = RunConfig().optimizer;
  base.optimizer_options = "{}";
  base.resolve();
  base.optimizer_options = options;
  // Hours of work should not end at an option that is wrong.
  torch::nn::Linear layer(1, 1);
  for (const auto& trial : trials_of(*this)) {
    make_optimizer(trial.config.optimizer, *layer, trial.config.optimizer_options);
  }
}

std::string SweepPlan::to_json() const {
  ordered_json object{{"optimizers", optimizers},
                      {"lr", learning_rates},
                      {"lr_of", learning_rates_of},
                      {"weight_decay", weight_decays},
                      {"draws", draws},
                      {"base", ordered_json::parse(base.to_json())}};
  return object.dump(2) + "\n";
}

SweepPlan SweepPlan::from_json(const std::string& text, const std::string& source) {
  const auto parsed = try_parse_json<ordered_json>(text);
  const auto& object = parsed.value;
  TORCH_CHECK(object.is_object(), "adaact: ", source, " is no plan of a sweep: ",
              parsed.problem.empty() ? "no JSON object" : parsed.problem);
  SweepPlan plan;
  try {
    object.at("optimizers").get_to(plan.optimizers);
    plan.learning_rates = numbers(object.at("lr"));
    for (const auto& [optimizer, rates] : object.at("lr_of").items()) {
      plan.learning_rates_of[optimizer] = numbers(rates);
    }
    plan.weight_decays = numbers(object.at("weight_decay"));
    plan.draws = whole_number(object.at("draws"), "draws");
    plan.base = RunConfig::from_json(object.at("base").dump(), "the field 'base'");
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", source,
                " is no plan of a sweep: ", error_text_within_line(error));
  }
  return plan;
}

std::vector<Trial> trials_of(const SweepPlan& plan) {
  std::vector<Trial> trials;
  for (const auto& optimizer : plan.optimizers) {
    const auto values =
        plan.draws > 0 ? drawn_values(plan, optimizer) : grid_values(plan, optimizer);
    for (const auto& each : values) trials.push_back(trial_of(plan, optimizer, each));
  }
  return trials;
}

std::vector<std::string> conflicts(const SweepPlan& plan, const SweepPlan& there) {
  std::vector<std::string> lines;
  for (const auto& each : differences(plan.base, there.base)) lines.push_back(each.text());
  std::set<std::string> planned;
  for (const auto& trial : trials_of(plan)) planned.insert(trial.name);
  std::vector<std::string> missing;
  for (const auto& trial : trials_of(there)) {
    if (planned.count(trial.name) == 0) missing.push_back(trial.name);
  }
  constexpr std::size_t kMostNamed = 5;
  if (missing.empty()) return lines;
  auto line = "it does not have " + std::to_string(missing.size()) + " of the trials there: ";
  const bool some = missing.size() > kMostNamed;
  if (some) missing.resize(kMostNamed);
  lines.push_back(line + joined(missing) + (some ? ", …" : ""));
  return lines;
}

}  // namespace adaact
