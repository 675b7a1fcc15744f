#include "optim/base/state_codec.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/each_once.h"
#include "optim/base/param_state.h"

namespace adaact {
namespace {

constexpr char kArchiveKey[] = "adaact_state";

std::vector<std::string> names_of(const torch::optim::OptimizerParamGroup& group,
                                  const LayerMap& model, const std::string& optimizer) {
  std::vector<std::string> names;
  for (const auto& tensor : each_once(group.params())) {
    names.push_back(model.parameters()[index_in_model(model, tensor, optimizer)].name);
  }
  return names;
}

}  // namespace

std::size_t index_in_model(const LayerMap& model, const torch::Tensor& parameter,
                           const std::string& optimizer) {
  const auto index = model.find(parameter);
  TORCH_CHECK(index, optimizer, ": a parameter of shape ", parameter.sizes(),
              " in a group is no parameter of the model");
  return *index;
}

bool name_the_same(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  return std::set<std::string>(names.begin(), names.end()) ==
         std::set<std::string>(others.begin(), others.end());
}

void check_same_policy(const StateCodec& codec, const torch::optim::OptimizerOptions& options,
                       const torch::optim::OptimizerOptions& of_first_group) {
  TORCH_CHECK(
      codec.non_finite_policy(options) == codec.non_finite_policy(of_first_group),
      codec.optimizer(),
      ": non_finite_policy differs between parameter groups; a step is rejected as a whole, "
      "so it must be the same in all");
}

void check_complex(const StateCodec& codec, const torch::optim::OptimizerOptions& options,
                   const NamedParameter& parameter) {
  TORCH_CHECK(!parameter.tensor.is_complex() || codec.takes_complex(options), codec.optimizer(),
              ": '", parameter.name, "' is ", parameter.tensor.scalar_type(),
              ", expected a real parameter");
}

OptimizerState export_named_state(const torch::optim::Optimizer& optimizer, const LayerMap& model,
                                  const StateCodec& codec) {
  OptimizerState exported;
  exported.optimizer = codec.optimizer();
  for (const auto& group : optimizer.param_groups()) {
    auto& saved_group = exported.groups.emplace_back();
    saved_group.options = codec.to_json(group.options());
    saved_group.parameters = names_of(group, model, codec.optimizer());
    for (const auto& tensor : group.params()) {
      const auto& name = model.parameters()[*model.find(tensor)].name;
      exported.shapes[name] = tensor.sizes().vec();
      const auto* state =
          find_param_state<torch::optim::OptimizerParamState>(optimizer.state(), tensor);
      if (state != nullptr) exported.entries[name] = codec.to_entries(*state);
    }
  }
  return exported;
}

void import_named_state(torch::optim::Optimizer& optimizer, const LayerMap& model,
                        const StateCodec& codec, const OptimizerState& saved,
                        const std::string& source) {
  export_named_state(optimizer, model, codec).check_that_it_fits(saved, source);

  // Everything that can fail comes first, so that a bad file leaves the optimizer as it was.
  using States = std::remove_reference_t<decltype(optimizer.state())>;
  States states;
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) {
    const auto names = names_of(group, model, codec.optimizer());
    const auto saved_group = std::find_if(
        saved.groups.begin(), saved.groups.end(),
        [&](const auto& candidate) { return name_the_same(names, candidate.parameters); });
    TORCH_CHECK(saved_group != saved.groups.end(), "adaact: ", source,
                " has no options for a parameter group");
    options.push_back(options_in(source, [&] { return codec.options_from(saved_group->options); }));
    check_same_policy(codec, *options.back(), *options.front());
    for (const auto& tensor : group.params()) {
      const auto& parameter = model.parameters()[*model.find(tensor)];
      options_in(source, [&] { check_complex(codec, *options.back(), parameter); });
      const auto entries = saved.entries.find(parameter.name);
      if (entries == saved.entries.end()) continue;
      EntryReader reader(entries->second, parameter, source);
      states[param_state_key<States>(tensor)] = codec.state_from(reader, *options.back());
      reader.finish();
    }
  }

  optimizer.state() = std::move(states);
  for (std::size_t g = 0; g < options.size(); ++g) {
    codec.assign(optimizer.param_groups()[g].options(), *options[g]);
  }
}

std::int64_t counter_of(const OptimizerState& state, const std::string& counter,
                        const std::string& source) {
  const auto found = state.counters.find(counter);
  TORCH_CHECK(found != state.counters.end(), "adaact: ", source, " lacks the counter '", counter,
              "'");
  TORCH_CHECK(found->second >= 0 && found->second <= kMostCounted, "adaact: ", source,
              ": the counter '", counter, "' is ", found->second, ", expected 0 to ", kMostCounted);
  return found->second;
}

void write_to_archive(const OptimizerState& state, torch::serialize::OutputArchive& archive) {
  const auto bytes = state.to_file().to_bytes();
  auto tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  archive.write(kArchiveKey, tensor, /*is_buffer=*/true);
}

OptimizerState read_from_archive(torch::serialize::InputArchive& archive) {
  torch::Tensor tensor;
  archive.read(kArchiveKey, tensor, /*is_buffer=*/true);
  tensor = tensor.contiguous();
  const std::string bytes(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  const std::string source = "archive";
  return OptimizerState::from_file(
      TensorFile::from_bytes(bytes, TensorFile::Checksum::Required, source), source);
}

}  // namespace adaact
