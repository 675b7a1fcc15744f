#pragma once

// One description of an options type serves validation, JSON, error messages and the registry:
//
//   template <>
//   struct OptionDescription<AdanOptions> {
//     static constexpr char kOptimizer[] = "Adan";
//     template <typename Options, typename Visitor>  // const or not
//     static void visit(Options& options, Visitor&& visit) {
//       visit("lr", options.lr(), at_least(0.0));
//       …
//     }
//   };
//
// It works for LibTorch's own options too.

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include <adaact/optim/non_finite.h>
#include <adaact/optim/options.h>
#include <torch/serialize/archive.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"

namespace adaact {

template <typename Options>
struct OptionDescription;

/// The numbers an option accepts.
struct Range {
  double low = 0.0;
  double high = std::numeric_limits<double>::infinity();
  bool low_included = true;
  bool infinity_included = false;

  Range or_infinity() const {
    auto range = *this;
    range.infinity_included = true;
    return range;
  }
  bool holds(double value) const {
    if (std::isinf(value) && value > 0.0) return infinity_included;
    return (low_included ? value >= low : value > low) && value < high;
  }
  std::string text() const {
    std::ostringstream out;
    if (std::isinf(high)) {
      out << "a number " << (low_included ? "≥ " : "> ") << low;
    } else {
      out << (low_included ? "[" : "(") << low << ", " << high << ")";
    }
    if (infinity_included) out << " or infinity (null in JSON)";
    return out.str();
  }
};

inline Range at_least(double low) { return {low}; }
inline Range above(double low) {
  Range range{low};
  range.low_included = false;
  return range;
}
inline Range from_up_to(double low, double high) { return {low, high}; }

/// For ε and damping: any smaller one is 0 in float32, or the step divided by it infinite, and an input that is
/// always 0 would make the weights NaN.
inline Range divisor() { return at_least(1e-30); }

struct AnyBool {};

template <typename Enum>
using EnumNames = std::map<std::string, Enum>;

inline const EnumNames<NonFinitePolicy>& non_finite_policy_names() {
  static const EnumNames<NonFinitePolicy> names{{"throw", NonFinitePolicy::Throw},
                                                {"skip", NonFinitePolicy::Skip}};
  return names;
}

template <typename Map>
std::string joined_keys(const Map& map) {
  std::string keys;
  for (const auto& [key, value] : map) keys += (keys.empty() ? "" : ", ") + std::string(key);
  return keys;
}

namespace option_visitors {

using nlohmann::json;

inline json number_to_json(double value) { return std::isinf(value) ? json() : json(value); }

struct ToJson {
  json result = json::object();

  void operator()(const char* name, double value, const Range&) {
    result[name] = number_to_json(value);
  }
  void operator()(const char* name, std::int64_t value, const Range&) { result[name] = value; }
  void operator()(const char* name, bool value, AnyBool) { result[name] = value; }
  template <typename... Numbers>
  void operator()(const char* name, const std::tuple<Numbers...>& values, const Range&) {
    result[name] =
        std::apply([](auto... each) { return json::array({number_to_json(each)...}); }, values);
  }
  template <typename Enum>
  void operator()(const char* name, Enum value, const EnumNames<Enum>& names) {
    for (const auto& [text, known] : names) {
      if (known == value) result[name] = text;
    }
  }
};

/// Lists the options for whoever writes an interface of another language.
struct Describe {
  json result = json::array();

  void operator()(const char* name, double value, const Range& range) {
    add(name, "number", number_to_json(value), range.text());
  }
  void operator()(const char* name, std::int64_t value, const Range& range) {
    add(name, "integer", value, range.text());
  }
  void operator()(const char* name, bool value, AnyBool) {
    add(name, "boolean", value, "true or false");
  }
  template <typename... Numbers>
  void operator()(const char* name, const std::tuple<Numbers...>& values, const Range& range) {
    ToJson defaults;
    defaults(name, values, range);
    add(name, "numbers", defaults.result[name], range.text());
  }
  template <typename Enum>
  void operator()(const char* name, Enum value, const EnumNames<Enum>& names) {
    ToJson defaults;
    defaults(name, value, names);
    add(name, "choice", defaults.result[name], "one of: " + joined_keys(names));
    for (const auto& [text, known] : names) result.back()["choices"].push_back(text);
  }

 private:
  void add(const char* name, const char* type, json value, std::string expected) {
    result.push_back({{"name", name},
                      {"type", type},
                      {"default", std::move(value)},
                      {"expected", std::move(expected)}});
  }
};

struct FromJson {
  const char* optimizer;
  json given;  // what has been read is taken out
  std::map<std::string, json> known;

  void operator()(const char* name, double& value, const Range& range) {
    take(name, [&](const json& entry) { value = number(name, entry, range); });
  }
  void operator()(const char* name, std::int64_t& value, const Range& range) {
    take(name, [&](const json& entry) {
      TORCH_CHECK(entry.is_number_integer(), optimizer, ": ", name, " is ", entry.dump(),
                  ", expected an integer, ", range.text());
      value = entry.get<std::int64_t>();
    });
  }
  void operator()(const char* name, bool& value, AnyBool) {
    take(name, [&](const json& entry) {
      TORCH_CHECK(entry.is_boolean(), optimizer, ": ", name, " is ", entry.dump(),
                  ", expected true or false");
      value = entry.get<bool>();
    });
  }
  template <typename... Numbers>
  void operator()(const char* name, std::tuple<Numbers...>& values, const Range& range) {
    take(name, [&](const json& entry) {
      TORCH_CHECK(entry.is_array() && entry.size() == sizeof...(Numbers), optimizer, ": ", name,
                  " is ", entry.dump(), ", expected ", sizeof...(Numbers), " numbers");
      std::size_t index = 0;
      std::apply([&](auto&... each) { ((each = number(name, entry[index++], range)), ...); },
                 values);
    });
  }
  template <typename Enum>
  void operator()(const char* name, Enum& value, const EnumNames<Enum>& names) {
    take(name, [&](const json& entry) {
      const auto found =
          entry.is_string() ? names.find(entry.template get<std::string>()) : names.end();
      TORCH_CHECK(found != names.end(), optimizer, ": ", name, " is ", entry.dump(),
                  ", expected one of: ", joined_keys(names));
      value = found->second;
    });
  }

 private:
  template <typename Read>
  void take(const char* name, Read&& read) {
    known.emplace(name, json());
    const auto entry = given.find(name);
    if (entry == given.end()) return;
    read(*entry);
    given.erase(entry);
  }
  double number(const char* name, const json& entry, const Range& range) const {
    if (entry.is_null()) return std::numeric_limits<double>::infinity();
    TORCH_CHECK(entry.is_number(), optimizer, ": ", name, " is ", entry.dump(), ", expected ",
                range.text());
    return entry.get<double>();
  }
};

struct Validate {
  const char* optimizer;

  template <typename Number>
  void check(const std::string& name, Number value, const Range& range) const {
    TORCH_CHECK(range.holds(static_cast<double>(value)), optimizer, ": ", name, " is ", value,
                ", expected ", range.text());
  }
  void operator()(const char* name, double value, const Range& range) const {
    check(name, value, range);
  }
  void operator()(const char* name, std::int64_t value, const Range& range) const {
    check(name, value, range);
  }
  template <typename... Numbers>
  void operator()(const char* name, const std::tuple<Numbers...>& values,
                  const Range& range) const {
    std::size_t index = 0;
    std::apply(
        [&](auto... each) {
          (check(std::string(name) + "[" + std::to_string(index++) + "]", each, range), ...);
        },
        values);
  }
  void operator()(const char* /*name*/, bool /*value*/, AnyBool) const {}
  template <typename Enum>
  void operator()(const char* /*name*/, Enum /*value*/, const EnumNames<Enum>& /*names*/) const {}
};

template <typename Description, typename Options, typename = void>
struct HasCheck : std::false_type {};
template <typename Description, typename Options>
struct HasCheck<Description, Options,
                std::void_t<decltype(Description::check(std::declval<const Options&>()))>>
    : std::true_type {};

}  // namespace option_visitors

template <typename Options>
std::string optimizer_name() {
  return OptionDescription<Options>::kOptimizer;
}

/// Each option alone, and then whatever OptionDescription::check() says of several together.
template <typename Options>
void validate_options(const Options& options) {
  using Description = OptionDescription<Options>;
  Description::visit(options, option_visitors::Validate{Description::kOptimizer});
  if constexpr (option_visitors::HasCheck<Description, Options>::value) Description::check(options);
}

template <typename Options>
nlohmann::json options_to_json(const Options& options) {
  option_visitors::ToJson visitor;
  OptionDescription<Options>::visit(options, visitor);
  return visitor.result;
}

/// A JSON array; defaults are the values of `options`.
template <typename Options>
nlohmann::json describe_options_of(const Options& options) {
  option_visitors::Describe visitor;
  OptionDescription<Options>::visit(options, visitor);
  return visitor.result;
}

/// Returns `options` with the given ones in their place.
template <typename Options>
Options options_from_json(const nlohmann::json& given, Options options) {
  using Description = OptionDescription<Options>;
  TORCH_CHECK(given.is_object(), Description::kOptimizer, ": the options are ", given.dump(),
              ", expected a JSON object");
  option_visitors::FromJson visitor{Description::kOptimizer, given, {}};
  Description::visit(options, visitor);
  TORCH_CHECK(visitor.given.empty(), Description::kOptimizer, ": there is no option '",
              visitor.given.begin().key(), "'; there are: ", joined_keys(visitor.known));
  validate_options(options);
  return options;
}

inline nlohmann::json parse_options(const std::string& text) {
  auto parsed = try_parse_json<nlohmann::json>(text);
  TORCH_CHECK(parsed.problem.empty(), "adaact: the optimizer's options are no JSON: ", text, " (",
              parsed.problem, ")");
  return std::move(parsed.value);
}

// JsonOptions, for an explicit instantiation beside each description.

template <typename Derived>
void JsonOptions<Derived>::validate() const {
  validate_options(static_cast<const Derived&>(*this));
}

template <typename Derived>
std::string JsonOptions<Derived>::to_json() const {
  return options_to_json(static_cast<const Derived&>(*this)).dump();
}

template <typename Derived>
std::string JsonOptions<Derived>::describe() {
  return describe_options_of(Derived()).dump();
}

template <typename Derived>
Derived JsonOptions<Derived>::from_json(const std::string& text) {
  return options_from_json(parse_options(text), Derived());
}

template <typename Derived>
void JsonOptions<Derived>::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write("options", c10::IValue(to_json()));
}

template <typename Derived>
void JsonOptions<Derived>::serialize(torch::serialize::InputArchive& archive) {
  c10::IValue text;
  archive.read("options", text);
  static_cast<Derived&>(*this) = from_json(text.toStringRef());
}

template <typename Derived>
double JsonOptions<Derived>::get_lr() const {
  return static_cast<const Derived&>(*this).lr();
}

template <typename Derived>
void JsonOptions<Derived>::set_lr(const double lr) {
  static_cast<Derived&>(*this).lr(lr);
}

}  // namespace adaact
