#include "train/run/checkpoint.h"

#include <limits>
#include <optional>
#include <set>
#include <vector>

#include <adaact/models/weights.h>
#include <adaact/optim/named_state.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "io/error_text.h"
#include "io/json_text.h"
#include "models/checkpoint_format.h"
#include "train/step/generator_state.h"

namespace adaact {
namespace {

using nlohmann::json;

const std::string kModel = kModelInCheckpoint;
const std::string kOptimizer = "optimizer/";
const std::string kAverage = "average/";
constexpr char kGenerator[] = "generator";
constexpr char kGpuGenerator[] = "gpu_generator";

template <typename State, typename Visitor>
void visit_state(State& state, Visitor&& visit) {
  visit("step", state.trainer.step);
  visit("epoch", state.trainer.epoch);
  visit("batch", state.trainer.batch);
  visit("seconds", state.trainer.seconds);
  visit("epoch_seconds", state.trainer.epoch_seconds);
  visit("loss_sum", state.trainer.loss_sum);
  visit("correct", state.trainer.correct);
  visit("images", state.trainer.images);
  visit("second_moments", state.trainer.second_moments);
  visit("activation_totals", state.trainer.activation_totals);
  visit("metrics_bytes", state.journal.metrics_bytes);
  visit("event_bytes", state.journal.event_bytes);
  visit("data", state.data);
}

/// A field of the wrong kind: what was expected in its place.
struct Misfit {
  std::string expected;
};

void read_value(const json& saved, std::int64_t& value) {
  const auto integer = json_integer(saved);
  if (!integer || *integer < 0) throw Misfit{"an integer ≥ 0"};
  value = *integer;
}
/// JSON has neither NaN nor infinity, which a skipped step may have left: null stands for them.
void read_value(const json& saved, double& value) {
  if (!saved.is_number() && !saved.is_null()) throw Misfit{"a number"};
  value = saved.is_null() ? std::numeric_limits<double>::quiet_NaN() : saved.get<double>();
}
void read_value(const json& saved, std::string& value) {
  if (!saved.is_string()) throw Misfit{"a text"};
  value = saved.get<std::string>();
}
void read_value(const json& saved, SecondMoments& moments) {
  const Misfit misfit{"a list of names with numbers"};
  if (!saved.is_array()) throw misfit;
  moments.clear();
  for (const auto& entry : saved) {
    if (!entry.is_array() || entry.size() != 2) throw misfit;
    auto& [name, value] = moments.emplace_back();
    read_value(entry[0], name);
    read_value(entry[1], value);
  }
}
void read_value(const json& saved, std::vector<double>& values) {
  if (!saved.is_array()) throw Misfit{"a list of numbers"};
  values.clear();
  for (const auto& entry : saved) read_value(entry, values.emplace_back());
}

/// The value of a field for a message, which a hostile file might make endless.
std::string shown(const json& value) {
  constexpr std::size_t kShown = 60;
  const auto text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "…";
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::string();
}

/// The generator of the GPU that the model is on; nothing where it is on none.
std::optional<at::Generator> generator_of_gpu(const Model& model) {
  const auto device = model.parameters().front().device();
  if (!device.is_cuda()) return std::nullopt;
  return generator_of(device);
}

const torch::Tensor& tensor_of(const TensorFile& checkpoint, const std::string& name,
                               const std::string& source) {
  const auto found = checkpoint.tensors.find(name);
  TORCH_CHECK(found != checkpoint.tensors.end(), "adaact: ", source, " lacks '", name, "'");
  return found->second;
}

void check_model(const TensorFile& checkpoint, const NamedTensors& tensors,
                 const std::string& source) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : tensors) {
    known.insert(kModel + name);
    const auto& saved = tensor_of(checkpoint, kModel + name, source);
    TORCH_CHECK(saved.sizes() == tensor.sizes() && saved.scalar_type() == tensor.scalar_type(),
                "adaact: ", source, ": '", name, "' is ", saved.scalar_type(), " ", saved.sizes(),
                ", expected ", tensor.scalar_type(), " ", tensor.sizes());
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto inner = without_prefix(name, kModel);
    TORCH_CHECK(inner.empty() || known.count(name) != 0, "adaact: ", source, ": the model has no '",
                inner, "'");
  }
}

/// Tries a state and puts back the one that was there. Not on a clone of the generator: LibTorch 1.13 never frees what
/// clone() makes, and with a GPU's generator of LibTorch 2.11 a program has crashed.
void check_generator(const at::Generator& generator, const TensorFile& checkpoint, const char* name,
                     const std::string& source) {
  const auto& state = tensor_of(checkpoint, name, source);
  const auto before = state_of(generator);
  try {
    set_state(generator, state);
    set_state(generator, before);
  } catch (const c10::Error& error) {
    set_state(generator, before);
    TORCH_CHECK(false, "adaact: ", source, ": '", name, "', ", state.scalar_type(), " ",
                state.sizes(), ", is no state of a random generator: ", error_text(error));
  }
}

}  // namespace

TensorFile make_checkpoint(const RunState& state, const Model& model,
                           const torch::optim::Optimizer& optimizer, const ModelCard& card) {
  TensorFile file;
  auto fields = json::object();
  visit_state(state, [&](const char* name, const auto& value) { fields[name] = value; });
  file.metadata = {{"format", kCheckpointFormat}, {"run", fields.dump()}};
  for (const auto& [key, value] : card.to_metadata()) file.metadata[kModel + key] = value;
  for (const auto& [name, tensor] : state_tensors(model)) file.tensors[kModel + name] = tensor;
  for (const auto& [name, tensor] : state.trainer.average) file.tensors[kAverage + name] = tensor;
  const auto of_optimizer = dynamic_cast<const HasNamedState&>(optimizer).export_state().to_file();
  for (const auto& [name, tensor] : of_optimizer.tensors) {
    file.tensors[kOptimizer + name] = tensor;
  }
  for (const auto& [key, value] : of_optimizer.metadata) file.metadata[kOptimizer + key] = value;
  file.tensors[kGenerator] = state_of(generator_of(torch::kCPU));
  if (const auto gpu = generator_of_gpu(model)) file.tensors[kGpuGenerator] = state_of(*gpu);
  return file;
}

RunState read_run_state(const TensorFile& checkpoint, const std::string& source) {
  const auto format = checkpoint.metadata.find("format");
  TORCH_CHECK(format != checkpoint.metadata.end() && format->second == kCheckpointFormat,
              "adaact: ", source, " is no checkpoint: its format is not '", kCheckpointFormat, "'");
  const auto run = checkpoint.metadata.find("run");
  TORCH_CHECK(run != checkpoint.metadata.end(), "adaact: ", source, " lacks 'run'");
  auto fields = parse_json<json>(run->second, source + ": the field run");
  TORCH_CHECK(fields.is_object(), "adaact: ", source, ": 'run' is no JSON object");
  fields.emplace("activation_totals", json::array());  // earlier versions had none
  RunState state;
  visit_state(state, [&](const char* name, auto& value) {
    const auto field = fields.find(name);
    TORCH_CHECK(field != fields.end(), "adaact: ", source, " lacks the field '", name, "'");
    try {
      read_value(*field, value);
    } catch (const Misfit& misfit) {
      TORCH_CHECK(false, "adaact: ", source, ": the field '", name, "' is ", shown(*field),
                  ", expected ", misfit.expected);
    }
  });
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto inner = without_prefix(name, kAverage);
    if (!inner.empty()) state.trainer.average[inner] = tensor;
  }
  return state;
}

void restore_checkpoint(const TensorFile& checkpoint, Model& model,
                        torch::optim::Optimizer& optimizer, const std::string& source) {
  TensorFile of_optimizer;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    const auto inner = without_prefix(name, kOptimizer);
    if (!inner.empty()) of_optimizer.tensors[inner] = tensor;
  }
  for (const auto& [key, value] : checkpoint.metadata) {
    const auto inner = without_prefix(key, kOptimizer);
    if (!inner.empty()) of_optimizer.metadata[inner] = value;
  }
  const auto optimizer_state = OptimizerState::from_file(of_optimizer, source);
  const auto tensors = state_tensors(model);
  check_model(checkpoint, tensors, source);
  check_generator(generator_of(torch::kCPU), checkpoint, kGenerator, source);
  const auto gpu = generator_of_gpu(model);
  const bool has_gpu_generator = gpu && checkpoint.tensors.count(kGpuGenerator) != 0;
  if (has_gpu_generator) check_generator(*gpu, checkpoint, kGpuGenerator, source);

  dynamic_cast<HasNamedState&>(optimizer).import_state(optimizer_state, source);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) tensor.detach().copy_(checkpoint.at(kModel + name));
  set_state(generator_of(torch::kCPU), checkpoint.at(kGenerator));
  if (has_gpu_generator) set_state(*gpu, checkpoint.at(kGpuGenerator));
}

}  // namespace adaact
