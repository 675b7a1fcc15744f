#include <algorithm>
#include <cstring>
#include <map>

#include <torch/serialize/archive.h>

#include "optim/adaact_internals.h"
#include "optim/param_state.h"

namespace adaact {
namespace {

constexpr char kArchiveKey[] = "adaact_state";
constexpr char kSkippedSteps[] = "skipped_steps";

// Entries of a parameter's state in a file.
constexpr char kStep[] = "step";
constexpr char kExpAvg[] = "exp_avg";
constexpr char kSegments[] = "segments";  // (S, 3): begin, end, observations
constexpr char kSecondMoment[] = "second_moment";
constexpr char kPreconditioner[] = "preconditioner";

torch::Tensor to_tensor(const std::vector<RowSegment>& segments) {
  auto tensor = torch::empty({static_cast<std::int64_t>(segments.size()), 3}, torch::kInt64);
  auto rows = tensor.accessor<std::int64_t, 2>();
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto row = static_cast<std::int64_t>(s);
    rows[row][0] = segments[s].begin;
    rows[row][1] = segments[s].end;
    rows[row][2] = segments[s].observations;
  }
  return tensor;
}

std::vector<RowSegment> to_segments(const torch::Tensor& tensor) {
  std::vector<RowSegment> segments;
  const auto rows = tensor.accessor<std::int64_t, 2>();
  for (std::int64_t s = 0; s < tensor.size(0); ++s) {
    segments.push_back({rows[s][0], rows[s][1], rows[s][2]});
  }
  return segments;
}

std::map<std::string, torch::Tensor> to_entries(const AdaActParamState& state) {
  std::map<std::string, torch::Tensor> entries;
  const auto keep = [&entries](const char* entry, const torch::Tensor& tensor) {
    if (tensor.defined()) entries[entry] = tensor.detach().clone();
  };
  entries[kStep] = torch::tensor(state.step(), torch::kInt64);
  keep(kExpAvg, state.exp_avg());
  keep(kSecondMoment, state.moments().ema);
  keep(kPreconditioner, state.preconditioner());
  if (!state.moments().segments.empty()) entries[kSegments] = to_tensor(state.moments().segments);
  return entries;
}

/// Checks everything a step relies on: a file may be whole and still be nonsense.
std::unique_ptr<AdaActParamState> to_state(const std::map<std::string, torch::Tensor>& entries,
                                           const NamedParameter& parameter,
                                           const std::string& source) {
  const auto expect = [&](bool holds, const char* entry) {
    TORCH_CHECK(holds, "adaact: ", source, ": entry '", entry, "' of '", parameter.name,
                "' does not fit the parameter");
  };
  auto state = std::make_unique<AdaActParamState>();
  auto& moments = state->moments();
  for (const auto& [entry, tensor] : entries) {
    if (entry == kStep) {
      expect(tensor.scalar_type() == torch::kInt64 && tensor.numel() == 1 &&
                 tensor.item<std::int64_t>() >= 0,
             kStep);
      state->step(tensor.item<std::int64_t>());
    } else if (entry == kExpAvg) {
      expect(tensor.sizes() == parameter.tensor.sizes(), kExpAvg);
      state->exp_avg(tensor.clone());
    } else if (entry == kSegments) {
      expect(tensor.scalar_type() == torch::kInt64 && tensor.dim() == 2 && tensor.size(1) == 3,
             kSegments);
      moments.segments = to_segments(tensor);
    } else if (entry == kSecondMoment) {
      moments.ema = tensor.clone();
    } else if (entry == kPreconditioner) {
      state->preconditioner(tensor.clone());
    } else {
      TORCH_CHECK(false, "adaact: ", source, ": '", parameter.name, "' has an unknown entry '",
                  entry, "'");
    }
  }

  const auto rows = parameter.tensor.dim() == 0 ? 1 : parameter.tensor.size(0);
  std::int64_t row = 0;
  for (const auto& segment : moments.segments) {
    expect(segment.begin >= row && segment.begin < segment.end && segment.end <= rows &&
               segment.observations > 0,
           kSegments);
    row = segment.end;
  }
  if (moments.ema.defined()) {
    expect(!moments.segments.empty() && rows > 0, kSegments);
    const auto features = parameter.tensor.numel() / rows;
    const auto width = moments.ema.size(-1);
    const bool diagonal = moments.ema.dim() == 2 && width == features;
    const bool full = moments.ema.dim() == 3 && moments.ema.size(1) == width &&
                      (width == features || width == features + 1) &&
                      state->preconditioner().defined();
    expect(moments.ema.is_floating_point() && (diagonal || full) &&
               moments.ema.size(0) == static_cast<std::int64_t>(moments.segments.size()),
           kSecondMoment);
  }
  if (state->preconditioner().defined()) {
    expect(moments.ema.defined() && moments.ema.dim() == 3 &&
               state->preconditioner().sizes() == moments.ema.sizes(),
           kPreconditioner);
  }
  return state;
}

std::vector<std::string> names_of(const torch::optim::OptimizerParamGroup& group,
                                  const LayerMap& map) {
  std::vector<std::string> names;
  for (const auto& tensor : group.params()) {
    const auto index = map.find(tensor);
    TORCH_CHECK(index != LayerMap::kNotFound, "AdaAct: a parameter of shape ", tensor.sizes(),
                " in a group is no parameter of the model");
    names.push_back(map.parameters()[index].name);
  }
  return names;
}

}  // namespace

OptimizerState AdaAct::export_state() const {
  const auto& self = *internals_;
  OptimizerState exported;
  exported.optimizer = "AdaAct";
  exported.counters[kSkippedSteps] = self.skipped_steps;
  for (const auto& group : param_groups_) {
    auto& saved_group = exported.groups.emplace_back();
    saved_group.options = options_of(group).to_json();
    saved_group.parameters = names_of(group, self.map());
    for (const auto& tensor : group.params()) {
      const auto& parameter = self.parameter(self.map().find(tensor));
      exported.shapes[parameter.name] = tensor.sizes().vec();
      if (const auto* state = find_state(tensor)) {
        exported.entries[parameter.name] = to_entries(*state);
      }
    }
  }
  return exported;
}

void AdaAct::import_state(const OptimizerState& saved, const std::string& source) {
  auto& self = *internals_;
  export_state().check_that_it_fits(saved, source);

  // Everything that can fail comes first, so that a bad file leaves this optimizer as it was.
  decltype(state_) states;
  std::vector<AdaActOptions> options;
  for (const auto& group : param_groups_) {
    const auto names = names_of(group, self.map());
    const auto saved_group =
        std::find_if(saved.groups.begin(), saved.groups.end(), [&](const auto& candidate) {
          return std::is_permutation(names.begin(), names.end(), candidate.parameters.begin(),
                                     candidate.parameters.end());
        });
    TORCH_CHECK(saved_group != saved.groups.end(), "adaact: ", source,
                " has no options for a parameter group");
    options.push_back(AdaActOptions::from_json(saved_group->options));
    for (const auto& tensor : group.params()) {
      const auto& parameter = self.parameter(self.map().find(tensor));
      const auto entries = saved.entries.find(parameter.name);
      if (entries == saved.entries.end()) continue;
      states[param_state_key<decltype(state_)>(tensor)] =
          to_state(entries->second, parameter, source);
    }
  }
  const auto skipped = saved.counters.find(kSkippedSteps);
  TORCH_CHECK(skipped != saved.counters.end(), "adaact: ", source, " lacks the counter '",
              kSkippedSteps, "'");

  state_ = std::move(states);
  for (std::size_t g = 0; g < options.size(); ++g) {
    static_cast<AdaActOptions&>(param_groups_[g].options()) = options[g];
  }
  self.skipped_steps = skipped->second;
  self.first_step_done = true;
  discard_observations();
  index_parameters();
}

void AdaAct::save(torch::serialize::OutputArchive& archive) const {
  const auto bytes = export_state().to_file().to_bytes();
  auto tensor = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  archive.write(kArchiveKey, tensor, /*is_buffer=*/true);
}

void AdaAct::load(torch::serialize::InputArchive& archive) {
  torch::Tensor tensor;
  archive.read(kArchiveKey, tensor, /*is_buffer=*/true);
  tensor = tensor.contiguous();
  const std::string bytes(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  const std::string source = "archive";
  const auto file = TensorFile::from_bytes(bytes, TensorFile::Checksum::Required, source);
  import_state(OptimizerState::from_file(file, source), source);
}

}  // namespace adaact
