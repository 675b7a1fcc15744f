#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace adaact {

/// How deep JSON may be nested. What this project writes is at most five deep; everything that walks
/// through a value calls itself once for each level.
inline constexpr std::size_t kDeepestJson = 100;

template <typename Json>
struct ParsedJson {
  Json value;           // discarded where there is a problem
  std::string problem;  // why the text is no JSON; else empty
};

/// What a text says that a file or a user gave, in time proportional to its length. `Json` is
/// nlohmann::json or nlohmann::ordered_json. A text that is nested deeper than kDeepestJson, or has a
/// field twice in an object, counts as no JSON.
template <typename Json>
ParsedJson<Json> try_parse_json(std::string_view text);

/// Parses as try_parse_json() does; what is no JSON is an error that names its source.
template <typename Json>
Json parse_json(std::string_view text, const std::string& source);

/// A whole number, where JSON has one that fits: get() would make 1 of 1.5 and -1 of 18446744073709551615.
template <typename Json>
std::optional<std::int64_t> json_integer(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.template get<std::uint64_t>() > kLargest) {
    return std::nullopt;
  }
  return value.template get<std::int64_t>();
}

/// The number of a field that is to be whole. The error names the field.
template <typename Json>
std::int64_t whole_number(const Json& value, const std::string& field);

extern template ParsedJson<nlohmann::json> try_parse_json(std::string_view);
extern template ParsedJson<nlohmann::ordered_json> try_parse_json(std::string_view);
extern template nlohmann::json parse_json(std::string_view, const std::string&);
extern template nlohmann::ordered_json parse_json(std::string_view, const std::string&);
extern template std::int64_t whole_number(const nlohmann::json&, const std::string&);
extern template std::int64_t whole_number(const nlohmann::ordered_json&, const std::string&);

}  // namespace adaact
