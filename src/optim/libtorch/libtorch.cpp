#include <adaact/optim/libtorch.h>

#include <utility>

#include <ATen/core/grad_mode.h>

#include "optim/base/all_finite.h"
#include "optim/device/device_session.h"
#include "optim/libtorch/libtorch_codec.h"
#include "optim/libtorch/libtorch_fused.h"

namespace adaact {
namespace {

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
LibTorchOptimizer<Base, BaseOptions>::LibTorchOptimizer(LibTorchOptimizer&&) noexcept = default;
template <typename Base, typename BaseOptions>
LibTorchOptimizer<Base, BaseOptions>::~LibTorchOptimizer() = default;

template <typename Base, typename BaseOptions>
torch::Tensor LibTorchOptimizer<Base, BaseOptions>::step(LossClosure closure) {
  if (device_session_) read_steps();  // the counts go on from there
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const auto culprit = non_finite_gradient(*this, model_);
  if (!culprit.empty()) {
    reject(culprit, kNothingChanged);
    ++skipped_steps_;
    return loss;
  }
  drop_gradients_of_frozen(*this);
  const torch::NoGradGuard no_grad;
  if (fused_step(*this, /*session=*/nullptr)) {
    count_fused_steps(*this, trained_parameters(*this), 1);
  } else {
    Base::step();
  }
  return loss;
}

/// Throws unless rejected steps are skipped.
template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::reject(const std::string& culprit,
                                                  const std::string& consequence) {
  if (non_finite_policy_ == NonFinitePolicy::Skip) return;
  throw NonFiniteError(codec_of_libtorch(*this)->optimizer() + ": " + culprit +
                       "; the step was rejected " + consequence);
}

template <typename Base, typename BaseOptions>
bool LibTorchOptimizer<Base, BaseOptions>::can_take_device_steps() const {
  return has_fused_operators();
}

#ifdef ADAACT_WITH_CUDA

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::send_learning_rates() {
  if (!device_session_) device_session_ = std::make_unique<DeviceSession>(*this);
  device_session_->send_learning_rates(*this);
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::enqueue_step() {
  const auto label = codec_of_libtorch(*this)->optimizer();
  TORCH_CHECK(device_session_, label, ": enqueue_step() without send_learning_rates() before it");
  const torch::NoGradGuard no_grad;
  drop_gradients_of_frozen(*this);
  std::vector<std::pair<torch::Tensor, std::string>> gradients;
  on_device_ = trained_parameters(*this);
  for (const auto& parameter : on_device_) {
    const auto& name = model_.parameters()[index_in_model(model_, parameter, label)].name;
    gradients.emplace_back(parameter.grad(), "the gradient of '" + name + "' is not finite");
  }
  device_session_->begin(gradients);
  TORCH_CHECK(
      fused_step(*this, device_session_.get()), label,
      ": this step cannot be captured in a CUDA graph: LibTorch's fused operator needs dense "
      "parameters of one type that have all taken the same number of steps");
  device_session_->end();
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::read_steps() {
  if (!device_session_) return;
  const auto news = device_session_->read();
  count_fused_steps(*this, on_device_, news.accepted);
  if (news.rejected == 0) return;
  reject(news.complaint, kLaterStepsTaken);
  skipped_steps_ += news.rejected;
}

#else

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::send_learning_rates() {
  TORCH_CHECK(false, codec_of_libtorch(*this)->optimizer(),
              ": steps on a device need a build with CUDA");
}
template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::enqueue_step() {
  send_learning_rates();
}
template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::read_steps() {}

#endif

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
  device_session_.reset();  // it counted from the state before
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
