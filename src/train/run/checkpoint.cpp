#include "train/run/checkpoint.h"

#include <limits>
#include <mutex>
#include <optional>

#include <ATen/CPUGeneratorImpl.h>
#include <adaact/models/weights.h>
#include <adaact/optim/named_state.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

namespace adaact {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "adaact.checkpoint.1";
const std::string kModel = "model/";
const std::string kOptimizer = "optimizer/";
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

template <typename Value>
void read_value(const json& saved, Value& value) {
  saved.get_to(value);
}
/// JSON has neither NaN nor infinity, which a skipped step may have left: null stands for them.
void read_value(const json& saved, double& value) {
  value = saved.is_null() ? std::numeric_limits<double>::quiet_NaN() : saved.get<double>();
}
void read_value(const json& saved, SecondMoments& moments) {
  moments.clear();
  for (const auto& entry : saved) {
    double value = 0.0;
    read_value(entry.at(1), value);
    moments.emplace_back(entry.at(0).get<std::string>(), value);
  }
}

std::string without_prefix(const std::string& name, const std::string& prefix) {
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::string();
}

/// The generator of the GPU that the model is on; nothing where it is on none.
std::optional<at::Generator> generator_of_gpu(const Model& model) {
  const auto device = model.parameters().front().device();
  if (!device.is_cuda()) return std::nullopt;
  return at::globalContext().defaultGenerator(device);
}

torch::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const torch::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

TensorFile make_checkpoint(const RunState& state, const Model& model,
                           const torch::optim::Optimizer& optimizer) {
  TensorFile file;
  auto fields = json::object();
  visit_state(state, [&](const char* name, const auto& value) { fields[name] = value; });
  file.metadata = {{"format", kFormat}, {"run", fields.dump()}};
  for (const auto& [name, tensor] : state_tensors(model)) file.tensors[kModel + name] = tensor;
  const auto of_optimizer = dynamic_cast<const HasNamedState&>(optimizer).export_state().to_file();
  for (const auto& [name, tensor] : of_optimizer.tensors) {
    file.tensors[kOptimizer + name] = tensor;
  }
  for (const auto& [key, value] : of_optimizer.metadata) file.metadata[kOptimizer + key] = value;
  file.tensors[kGenerator] = state_of(at::detail::getDefaultCPUGenerator());
  if (const auto gpu = generator_of_gpu(model)) file.tensors[kGpuGenerator] = state_of(*gpu);
  return file;
}

RunState restore_checkpoint(const TensorFile& checkpoint, Model& model,
                            torch::optim::Optimizer& optimizer, const std::string& source) {
  const auto format = checkpoint.metadata.find("format");
  TORCH_CHECK(format != checkpoint.metadata.end() && format->second == kFormat, "adaact: ", source,
              " is no checkpoint: its format is not '", kFormat, "'");
  RunState state;
  try {
    auto fields = json::parse(checkpoint.metadata.at("run"));
    fields.emplace("activation_totals", json::array());  // earlier versions had none
    visit_state(state, [&](const char* name, auto& value) { read_value(fields.at(name), value); });
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "adaact: ", source, ": where the run stood cannot be read: ", error.what());
  }

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
  for (const auto& [name, tensor] : tensors) {
    const auto& saved = checkpoint.at(kModel + name);
    TORCH_CHECK(saved.sizes() == tensor.sizes() && saved.scalar_type() == tensor.scalar_type(),
                "adaact: ", source, ": '", name, "' is ", saved.scalar_type(), " ", saved.sizes(),
                ", expected ", tensor.scalar_type(), " ", tensor.sizes());
  }
  const auto generator = checkpoint.at(kGenerator);

  dynamic_cast<HasNamedState&>(optimizer).import_state(optimizer_state, source);
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) tensor.detach().copy_(checkpoint.at(kModel + name));
  set_state(at::detail::getDefaultCPUGenerator(), generator);
  const auto gpu = generator_of_gpu(model);
  if (gpu && checkpoint.tensors.count(kGpuGenerator) != 0) {
    set_state(*gpu, checkpoint.at(kGpuGenerator));
  }
  return state;
}

}  // namespace adaact
