#include <adaact/optim/named_state.h>

#include <algorithm>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "io/json_text.h"

namespace adaact {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "adaact.optimizer_state.1";

std::multiset<std::set<std::string>> partition(const std::vector<OptimizerState::Group>& groups) {
  std::multiset<std::set<std::string>> sets;
  for (const auto& group : groups) sets.emplace(group.parameters.begin(), group.parameters.end());
  return sets;
}

std::int64_t integer_of(const json& value, const char* what, const std::string& name,
                        const std::string& source) {
  return whole_number(value, "adaact: " + source + ": " + what + " '" + name + "'");
}

}  // namespace

TensorFile OptimizerState::to_file() const {
  auto group_list = json::array();
  for (const auto& group : groups) {
    group_list.push_back(
        {{"parameters", group.parameters}, {"options", json::parse(group.options)}});
  }
  TensorFile file;
  file.metadata = {{"format", kFormat},
                   {"optimizer", optimizer},
                   {"shapes", json(shapes).dump()},
                   {"groups", group_list.dump()},
                   {"counters", json(counters).dump()}};
  for (const auto& [parameter, values] : entries) {
    for (const auto& [entry, value] : values) file.tensors[entry + "/" + parameter] = value;
  }
  return file;
}

OptimizerState OptimizerState::from_file(const TensorFile& file, const std::string& source) {
  const auto format = file.metadata.find("format");
  TORCH_CHECK(format != file.metadata.end() && format->second == kFormat, "adaact: ", source,
              " holds no optimizer state: its format is '",
              format == file.metadata.end() ? "" : format->second, "', expected '", kFormat, "'");
  OptimizerState state;
  const auto field = [&](const char* key) {
    const auto found = file.metadata.find(key);
    TORCH_CHECK(found != file.metadata.end(), "adaact: ", source, " lacks '", key, "'");
    return found->second;
  };
  state.optimizer = field("optimizer");
  using Fields = std::map<std::string, json>;
  try {
    for (const auto& [name, saved] :
         parse_json<json>(field("shapes"), source + ": shapes").get<Fields>()) {
      auto& shape = state.shapes[name];
      for (const auto& size : saved.get<std::vector<json>>()) {
        shape.push_back(integer_of(size, "a size of", name, source));
      }
    }
    for (const auto& group : parse_json<json>(field("groups"), source + ": groups")) {
      state.groups.push_back(
          {group.at("parameters").get<std::vector<std::string>>(), group.at("options").dump()});
    }
    for (const auto& [name, value] :
         parse_json<json>(field("counters"), source + ": counters").get<Fields>()) {
      state.counters[name] = integer_of(value, "the counter", name, source);
    }
  } catch (const json::exception& error) {
    TORCH_CHECK(false, "adaact: ", source,
                ": the description of the state cannot be read: ", error.what());
  }
  for (const auto& [name, tensor] : file.tensors) {
    const auto slash = name.find('/');
    TORCH_CHECK(slash != std::string::npos, "adaact: ", source, ": '", name,
                "' is no entry of an optimizer state");
    state.entries[name.substr(slash + 1)][name.substr(0, slash)] = tensor;
  }
  return state;
}

void OptimizerState::check_that_it_fits(const OptimizerState& saved,
                                        const std::string& source) const {
  std::ostringstream differences;
  if (saved.optimizer != optimizer) {
    differences << "\n  it belongs to " << saved.optimizer << ", this is " << optimizer;
  }
  for (const auto& [name, shape] : shapes) {
    const auto found = saved.shapes.find(name);
    if (found == saved.shapes.end()) {
      differences << "\n  '" << name << "' is not in the file";
    } else if (found->second != shape) {
      differences << "\n  '" << name << "' has shape " << at::IntArrayRef(shape) << ", in the file "
                  << at::IntArrayRef(found->second);
    }
  }
  for (const auto& [name, shape] : saved.shapes) {
    if (shapes.count(name) == 0) differences << "\n  '" << name << "' is only in the file";
  }
  for (const auto& [name, values] : saved.entries) {
    if (saved.shapes.count(name) == 0) {
      differences << "\n  the file has entries of '" << name
                  << "', which is none of its parameters";
    }
  }
  if (differences.str().empty() && partition(saved.groups) != partition(groups)) {
    differences << "\n  the parameters are grouped differently: " << groups.size()
                << " groups here, " << saved.groups.size() << " in the file";
  }
  TORCH_CHECK(differences.str().empty(), "adaact: the state in ", source,
              " does not fit this optimizer:", differences.str());
}

void NamedState::save(const std::filesystem::path& path) const {
  owner_.export_state().to_file().write(path);
}

void NamedState::save(std::ostream& out) const { owner_.export_state().to_file().write(out); }

void NamedState::load(const std::filesystem::path& path) {
  const auto file = TensorFile::read(path, TensorFile::Checksum::Required);
  owner_.import_state(OptimizerState::from_file(file, path.string()), path.string());
}

void NamedState::load(std::istream& in) {
  const auto file = TensorFile::read(in, TensorFile::Checksum::Required);
  owner_.import_state(OptimizerState::from_file(file, "stream"), "stream");
}

}  // namespace adaact
