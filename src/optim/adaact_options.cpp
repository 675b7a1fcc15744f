#include <cmath>
#include <map>

#include <adaact/optim/adaact.h>
#include <torch/serialize/archive.h>
#include <nlohmann/json.hpp>

namespace adaact {
namespace {

using nlohmann::json;

constexpr char kArchiveKey[] = "adaact_options";

template <typename Enum>
using EnumNames = std::map<std::string, Enum>;

const EnumNames<Covariance> kCovarianceNames{{"diagonal", Covariance::Diagonal},
                                             {"full", Covariance::Full}};
const EnumNames<UnobservedRule> kUnobservedRuleNames{
    {"plain_gradient", UnobservedRule::PlainGradient}, {"momentum", UnobservedRule::Momentum}};
const EnumNames<NonFinitePolicy> kNonFinitePolicyNames{{"throw", NonFinitePolicy::Throw},
                                                       {"skip", NonFinitePolicy::Skip}};

template <typename Enum>
std::string name_of(const EnumNames<Enum>& names, Enum value) {
  for (const auto& [name, known] : names) {
    if (known == value) return name;
  }
  TORCH_CHECK(false, "adaact: unknown enumerator ", static_cast<int>(value));
}

template <typename Enum>
Enum value_of(const EnumNames<Enum>& names, const json& name, const std::string& option) {
  const auto found = names.find(name.get<std::string>());
  if (found != names.end()) return found->second;
  std::string known;
  for (const auto& [other, value] : names) known += (known.empty() ? "" : ", ") + other;
  TORCH_CHECK(false, "AdaAct: ", option, " is ", name, ", expected one of: ", known);
}

/// JSON has no infinity: null stands for an open upper bound.
json bound(double value) { return std::isinf(value) ? json(nullptr) : json(value); }
double bound(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

}  // namespace

AdaActOptions::AdaActOptions(double lr) : lr_(lr) {}

void AdaActOptions::validate() const {
  const auto [beta1, beta2] = betas_;
  const auto [clip_low, clip_high] = clip_range_;
  const bool clips = clip_low > 0.0 || !std::isinf(clip_high);
  TORCH_CHECK(lr_ >= 0.0 && std::isfinite(lr_), "AdaAct: lr is ", lr_, ", expected a number ≥ 0");
  TORCH_CHECK(beta1 >= 0.0 && beta1 < 1.0, "AdaAct: betas[0] is ", beta1, ", expected [0, 1)");
  TORCH_CHECK(beta2 >= 0.0 && beta2 < 1.0, "AdaAct: betas[1] is ", beta2, ", expected [0, 1)");
  TORCH_CHECK(eps_ > 0.0 && std::isfinite(eps_), "AdaAct: eps is ", eps_,
              ", expected a number > 0 (an input that is always 0 divides by it)");
  TORCH_CHECK(weight_decay_ >= 0.0 && std::isfinite(weight_decay_), "AdaAct: weight_decay is ",
              weight_decay_, ", expected a number ≥ 0");
  TORCH_CHECK(power_ >= 0.0 && std::isfinite(power_), "AdaAct: power is ", power_,
              ", expected a number ≥ 0");
  TORCH_CHECK(clip_low >= 0.0 && clip_low < clip_high, "AdaAct: clip_range is [", clip_low, ", ",
              clip_high, "], expected 0 ≤ low < high");
  TORCH_CHECK(damping_ >= 0.0 && std::isfinite(damping_), "AdaAct: damping is ", damping_,
              ", expected a number ≥ 0");
  TORCH_CHECK(refresh_period_ >= 1, "AdaAct: refresh_period is ", refresh_period_,
              ", expected ≥ 1");
  TORCH_CHECK(covariance_ == Covariance::Diagonal || !clips, "AdaAct: clip_range is [", clip_low,
              ", ", clip_high, "], but the full covariance cannot be clipped");
}

std::string AdaActOptions::to_json() const {
  const auto [beta1, beta2] = betas_;
  const auto [clip_low, clip_high] = clip_range_;
  return json{{"lr", lr_},
              {"betas", {beta1, beta2}},
              {"eps", eps_},
              {"weight_decay", weight_decay_},
              {"power", power_},
              {"clip_range", {clip_low, bound(clip_high)}},
              {"covariance", name_of(kCovarianceNames, covariance_)},
              {"damping", damping_},
              {"refresh_period", refresh_period_},
              {"unobserved_rule", name_of(kUnobservedRuleNames, unobserved_rule_)},
              {"non_finite_policy", name_of(kNonFinitePolicyNames, non_finite_policy_)}}
      .dump();
}

AdaActOptions AdaActOptions::from_json(const std::string& text) {
  AdaActOptions options;
  const auto known = json::parse(options.to_json());
  try {
    const auto given = json::parse(text);
    for (const auto& [key, value] : given.items()) {
      if (key == "lr") {
        options.lr_ = value.get<double>();
      } else if (key == "betas") {
        options.betas_ = {value.at(0).get<double>(), value.at(1).get<double>()};
      } else if (key == "eps") {
        options.eps_ = value.get<double>();
      } else if (key == "weight_decay") {
        options.weight_decay_ = value.get<double>();
      } else if (key == "power") {
        options.power_ = value.get<double>();
      } else if (key == "clip_range") {
        options.clip_range_ = {value.at(0).get<double>(), bound(value.at(1))};
      } else if (key == "covariance") {
        options.covariance_ = value_of(kCovarianceNames, value, key);
      } else if (key == "damping") {
        options.damping_ = value.get<double>();
      } else if (key == "refresh_period") {
        options.refresh_period_ = value.get<std::int64_t>();
      } else if (key == "unobserved_rule") {
        options.unobserved_rule_ = value_of(kUnobservedRuleNames, value, key);
      } else if (key == "non_finite_policy") {
        options.non_finite_policy_ = value_of(kNonFinitePolicyNames, value, key);
      } else {
        std::string names;
        for (const auto& [name, unused] : known.items())
          names += (names.empty() ? "" : ", ") + name;
        TORCH_CHECK(false, "AdaAct: there is no option '", key, "'; there are: ", names);
      }
    }
  } catch (const json::exception& error) {
    TORCH_CHECK(false, "AdaAct: the options ", text, " cannot be read: ", error.what());
  }
  options.validate();
  return options;
}

void AdaActOptions::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write(kArchiveKey, c10::IValue(to_json()));
}

void AdaActOptions::serialize(torch::serialize::InputArchive& archive) {
  c10::IValue text;
  archive.read(kArchiveKey, text);
  *this = from_json(text.toStringRef());
}

double AdaActOptions::get_lr() const { return lr_; }

void AdaActOptions::set_lr(const double lr) { lr_ = lr; }

bool operator==(const AdaActOptions& left, const AdaActOptions& right) {
  return left.to_json() == right.to_json();
}

}  // namespace adaact
