#include <adaact/optim/libtorch.h>

#include <type_traits>
#include <utility>

#include "optim/base/param_state.h"
#include "optim/base/step_parts.h"
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

void describe_policy(nlohmann::json& descriptions) {
  option_visitors::Describe describe;
  describe(kPolicyOption, NonFinitePolicy::Throw, non_finite_policy_names());
  descriptions.push_back(describe.result.front());
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
      non_finite_policy_(non_finite_policy),
      parts_(
          std::make_unique<StepParts>(*this, *this, std::move(model), *codec_of_libtorch(*this))) {
  parts_->set_host_work(has_fused_operators() ? HostWork::Nothing : HostWork::Everything);
  parts_->index_parameters();
}

template <typename Base, typename BaseOptions>
LibTorchOptimizer<Base, BaseOptions>::LibTorchOptimizer(LibTorchOptimizer&& other) noexcept
    : Base(std::move(other)),
      non_finite_policy_(other.non_finite_policy_),
      parts_(std::move(other.parts_)),
      updated_(std::move(other.updated_)) {
  parts_->rebind(*this, *this);
}
template <typename Base, typename BaseOptions>
LibTorchOptimizer<Base, BaseOptions>::~LibTorchOptimizer() = default;

template <typename Base, typename BaseOptions>
torch::Tensor LibTorchOptimizer<Base, BaseOptions>::step(LossClosure closure) {
  return parts_->step(closure);
}

template <typename Base, typename BaseOptions>
std::int64_t LibTorchOptimizer<Base, BaseOptions>::steps() const noexcept {
  return parts_->steps();
}

template <typename Base, typename BaseOptions>
std::int64_t LibTorchOptimizer<Base, BaseOptions>::skipped_steps() const noexcept {
  return parts_->skipped_steps();
}

template <typename Base, typename BaseOptions>
std::shared_ptr<const StepStatistics> LibTorchOptimizer<Base, BaseOptions>::measure() {
  drop_gradients_of_frozen(*this);
  return std::make_shared<StepStatistics>();
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::apply(const StepStatistics& /*statistics*/) {
  auto trained = trained_parameters(*this);
  if (fused_step(*this, parts_->numbers())) {
    updated_ = std::move(trained);
    return;
  }
  parts_->check_seen_by_host(
      "LibTorch's fused operators: dense parameters of one type with equally many steps");
  Base::step();
  updated_.clear();  // LibTorch's own step has counted
}

template <typename Base, typename BaseOptions>
void LibTorchOptimizer<Base, BaseOptions>::settle([[maybe_unused]] std::int64_t steps) {
  if constexpr (std::is_same_v<Base, torch::optim::Adam>) {
    count_steps<torch::optim::AdamParamState>(this->state(), updated_, steps);
  } else if constexpr (std::is_same_v<Base, torch::optim::AdamW>) {
    count_steps<torch::optim::AdamWParamState>(this->state(), updated_, steps);
  }  // SGD does not count
}

template <typename Base, typename BaseOptions>
OptimizerState LibTorchOptimizer<Base, BaseOptions>::export_state() const {
  auto exported = parts_->export_state();
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
  auto policy = non_finite_policy_;
  auto of_base = state;  // whose options LibTorch's classes know
  for (auto& group : of_base.groups) {
    auto options = options_in(source, [&] { return parse_options(group.options); });
    policy = options_in(source, [&] { return take_policy(options, parts_->codec().optimizer()); });
    group.options = options.dump();
  }
  of_base.counters.emplace(kSteps, 0);  // version 0.1 did not count the steps of these
  parts_->import_state(of_base, source);
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
