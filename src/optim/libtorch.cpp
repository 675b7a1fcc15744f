#include <adaact/optim/libtorch.h>

#include <utility>

#include <ATen/core/grad_mode.h>

#include "optim/all_finite.h"
#include "optim/libtorch_codec.h"

namespace adaact {
namespace {

constexpr char kSkippedSteps[] = "skipped_steps";

std::vector<torch::optim::OptimizerParamGroup> or_one_of_all(
    std::vector<torch::optim::OptimizerParamGroup> param_groups, const LayerMap& model) {
  if (param_groups.empty()) param_groups.emplace_back(model.tensors());
  return param_groups;
}

/// LibTorch 1.13 keeps the gradient of a parameter that was frozen after a step, and its optimizers
/// would go on moving it by momentum and decay.
void drop_gradients_of_frozen(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (auto& parameter : group.params()) {
      if (!parameter.requires_grad()) parameter.mutable_grad().reset();
    }
  }
}

}  // namespace

void write_policy(nlohmann::json& options, NonFinitePolicy policy) {
  option_visitors::ToJson write;
  write(kPolicyOption, policy, non_finite_policy_names());
  options.update(write.result);
}

NonFinitePolicy take_policy(nlohmann::json& options, const std::string& optimizer) {
  auto policy = NonFinitePolicy::Throw;
  option_visitors::FromJson read{optimizer.c_str(), std::move(options), {}};
  read(kPolicyOption, policy, non_finite_policy_names());
  options = std::move(read.given);
  return policy;
}

const StateCodec* codec_of_libtorch(const torch::optim::Optimizer& optimizer) {
  namespace optim = torch::optim;
  if (dynamic_cast<const optim::SGD*>(&optimizer) != nullptr) {
    return &SimpleCodec<optim::SGDOptions, optim::SGDParamState>::instance();
  }
  if (dynamic_cast<const optim::AdamW*>(&optimizer) != nullptr) {
    return &SimpleCodec<optim::AdamWOptions, optim::AdamWParamState>::instance();
  }
  if (dynamic_cast<const optim::Adam*>(&optimizer) != nullptr) {
    return &SimpleCodec<optim::AdamOptions, optim::AdamParamState>::instance();
  }
  return nullptr;
}

template <typename Base, typename BaseOptions>
LibTorchOptimizer<Base, BaseOptions>::LibTorchOptimizer(LayerMap model, const BaseOptions& defaults,
                                                        NonFinitePolicy non_finite_policy)
    : LibTorchOptimizer(std::move(model), {}, defaults, non_finite_policy) {}

template <typename Base, typename BaseOptions>
LibTorchOptimizer<Base, BaseOptions>::LibTorchOptimizer(
    LayerMap model, std::vector<torch::optim::OptimizerParamGroup> param_groups,
    const BaseOptions& defaults, NonFinitePolicy non_finite_policy)
    : Base(or_one_of_all(std::move(param_groups), model), defaults),
      model_(std::move(model)),
      non_finite_policy_(non_finite_policy) {
  const auto& codec = *codec_of_libtorch(*this);
  TORCH_CHECK(!model_.parameters().empty(), codec.optimizer(), ": the model has no parameters");
  for (const auto& group : this->param_groups()) {
    codec.check(group.options());
    for (const auto& tensor : group.params()) index_in_model(model_, tensor, codec.optimizer());
  }
}

template <typename Base, typename BaseOptions>
torch::Tensor LibTorchOptimizer<Base, BaseOptions>::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const auto culprit = non_finite_gradient(*this, model_);
  if (culprit.empty()) {
    drop_gradients_of_frozen(*this);
    Base::step();
  } else if (non_finite_policy_ == NonFinitePolicy::Throw) {
    throw NonFiniteError(codec_of_libtorch(*this)->optimizer() + ": " + culprit +
                         "; the step was rejected and nothing has changed");
  } else {
    ++skipped_steps_;
  }
  return loss;
}

template <typename Base, typename BaseOptions>
OptimizerState LibTorchOptimizer<Base, BaseOptions>::export_state() const {
  auto exported = export_named_state(*this, model_, *codec_of_libtorch(*this));
  exported.counters[kSkippedSteps] = skipped_steps_;
  for (auto& group : exported.groups) {
    auto options = nlohmann::json::parse(group.options);
    write_policy(options, non_finite_policy_);
    group.options = options.dump();
  }
  return exported;
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::import_state(const OptimizerState& state,
                                                        const std::string& source) {
  const auto& codec = *codec_of_libtorch(*this);
  const auto skipped_steps = counter_of(state, kSkippedSteps, source);
  auto policy = non_finite_policy_;
  auto of_base = state;  // whose options LibTorch's classes know
  for (auto& group : of_base.groups) {
    auto options = parse_options(group.options);
    policy = take_policy(options, codec.optimizer());
    group.options = options.dump();
  }
  import_named_state(*this, model_, codec, of_base, source);
  skipped_steps_ = skipped_steps;
  non_finite_policy_ = policy;
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::save(torch::serialize::OutputArchive& archive) const {
  write_to_archive(export_state(), archive);
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::load(torch::serialize::InputArchive& archive) {
  import_state(read_from_archive(archive), "archive");
}

template class LibTorchOptimizer<torch::optim::SGD, torch::optim::SGDOptions>;
template class LibTorchOptimizer<torch::optim::Adam, torch::optim::AdamOptions>;
template class LibTorchOptimizer<torch::optim::AdamW, torch::optim::AdamWOptions>;

}  // namespace adaact
