#include "io/json_text.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "io/printable.h"

namespace adaact {
namespace {

/// A field that must not be there yet, for nlohmann's ordered objects: their own search for the name
/// would take longer with every field. Fields that are there twice are found at the end.
nlohmann::ordered_json* add_field(nlohmann::ordered_json::object_t& object, std::string name) {
  using Fields = nlohmann::ordered_json::object_t::Container;
  return &static_cast<Fields&>(object).emplace_back(std::move(name), nullptr).second;
}

nlohmann::json* add_field(nlohmann::json::object_t& object, std::string name) {
  const auto [field, is_new] = object.emplace(std::move(name), nullptr);
  return is_new ? &field->second : nullptr;
}

/// The name of a field that is there twice; null where there is none.
const std::string* repeated_field(const nlohmann::ordered_json::object_t& object) {
  std::vector<const std::string*> names;
  for (const auto& field : object) names.push_back(&field.first);
  std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto found = std::adjacent_find(names.begin(), names.end(),
                                        [](const auto* a, const auto* b) { return *a == *b; });
  return found == names.end() ? nullptr : *found;
}

const std::string* repeated_field(const nlohmann::json::object_t& /*object*/) { return nullptr; }

/// At most a line of a text that may be long.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t kShown = 200;
  return printable(text.size() <= kShown ? text : text.substr(0, kShown) + "...");
}

/// Makes a value of what nlohmann's parser reports, which is itself not recursive.
template <typename Json>
class JsonBuilder {
 public:
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(typename Json::number_integer_t value) { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return add(value); }
  bool number_float(typename Json::number_float_t value, const std::string& /*text*/) {
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(std::move(value)); }

  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }

  bool key(std::string& name) {
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    field_ = add_field(object, name);
    return field_ != nullptr || fail_at_repeated(name);
  }

  bool end_object() {
    const auto& object = open_.back()->template get_ref<const typename Json::object_t&>();
    if (const auto* name = repeated_field(object)) return fail_at_repeated(*name);
    open_.pop_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    const std::string text = error.what();
    const auto label = text.find("] ");  // the number that nlohmann gives each error
    problem = beginning_of(label == std::string::npos ? text : text.substr(label + 2));
    return false;
  }

  Json root;
  std::string problem;

 private:
  Json* place(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back()->is_object()) return &(*field_ = std::move(value));
    auto& array = open_.back()->template get_ref<typename Json::array_t&>();
    return &array.emplace_back(std::move(value));
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() == kDeepestJson) {
      problem = "it is nested deeper than " + std::to_string(kDeepestJson) + " levels";
      return false;
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool fail_at_repeated(const std::string& name) {
    problem = "it has the field '" + beginning_of(name) + "' twice in an object";
    return false;
  }

  std::vector<Json*> open_;  // none of them moves before what is in it is complete
  Json* field_ = nullptr;    // of the innermost object, for the value that comes next
};

}  // namespace

template <typename Json>
ParsedJson<Json> try_parse_json(std::string_view text) {
  JsonBuilder<Json> builder;
  if (Json::sax_parse(text.begin(), text.end(), &builder)) return {std::move(builder.root), {}};
  return {Json(Json::value_t::discarded), builder.problem};
}

template <typename Json>
Json parse_json(std::string_view text, const std::string& source) {
  auto parsed = try_parse_json<Json>(text);
  TORCH_CHECK(parsed.problem.empty(), "adaact: ", source, " is no JSON: ", parsed.problem);
  return std::move(parsed.value);
}

template <typename Json>
std::int64_t whole_number(const Json& value, const std::string& field) {
  const auto number = json_integer(value);
  TORCH_CHECK(number, field, " is ", beginning_of(value.dump()), ", expected a whole number");
  return *number;
}

template ParsedJson<nlohmann::json> try_parse_json(std::string_view);
template ParsedJson<nlohmann::ordered_json> try_parse_json(std::string_view);
template nlohmann::json parse_json(std::string_view, const std::string&);
template nlohmann::ordered_json parse_json(std::string_view, const std::string&);
template std::int64_t whole_number(const nlohmann::json&, const std::string&);
template std::int64_t whole_number(const nlohmann::ordered_json&, const std::string&);

}  // namespace adaact
