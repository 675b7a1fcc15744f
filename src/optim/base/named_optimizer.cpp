#include <adaact/optim/named_optimizer.h>

#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "optim/base/all_finite.h"
#include "optim/base/state_codec.h"
#include "optim/device/device_session.h"

namespace adaact {
namespace {

constexpr char kSteps[] = "steps";

}  // namespace

NamedOptimizer::NamedOptimizer(LayerMap model,
                               std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                               const StateCodec& codec)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>{}, std::move(defaults)),
      model_(std::move(model)),
      codec_(&codec) {
  codec_->check(*defaults_);
  TORCH_CHECK(!model_.parameters().empty(), label(), ": the model has no parameters");
}

NamedOptimizer::NamedOptimizer(NamedOptimizer&&) noexcept = default;
NamedOptimizer::~NamedOptimizer() = default;

void NamedOptimizer::add_param_groups(std::vector<torch::optim::OptimizerParamGroup> param_groups) {
  if (param_groups.empty()) param_groups.emplace_back(model_.tensors());
  for (const auto& group : param_groups) add_param_group(group);
}

void NamedOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& param_group) {
  Optimizer::add_param_group(param_group);
  try {
    index_parameters();
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

void NamedOptimizer::index_parameters() {
  std::vector<std::size_t> managed;
  std::vector<std::size_t> group_of(model_.parameters().size(), LayerMap::kNotFound);
  for (std::size_t g = 0; g < param_groups_.size(); ++g) {
    const auto& options = param_groups_[g].options();
    codec_->check(options);
    check_same_policy(*codec_, options, param_groups_[0].options());
    for (const auto& tensor : param_groups_[g].params()) {
      const auto index = index_in_model(model_, tensor, label());
      if (group_of[index] == g) continue;  // tied, and listed under each name
      TORCH_CHECK(group_of[index] == LayerMap::kNotFound, label(), ": '", parameter(index).name,
                  "' is in two parameter groups, ", group_of[index], " and ", g);
      TORCH_CHECK(!tensor.is_complex() || takes_complex(options), label(), ": '",
                  parameter(index).name, "' is ", tensor.scalar_type(),
                  ", expected a real parameter");
      group_of[index] = g;
      managed.push_back(index);
    }
  }
  managed_ = std::move(managed);
  group_of_ = std::move(group_of);
  on_groups_indexed();
}

std::string NamedOptimizer::label() const { return codec_->optimizer(); }

const torch::optim::OptimizerOptions& NamedOptimizer::group_options(std::size_t index) const {
  return param_groups_[group_of_[index]].options();
}

bool NamedOptimizer::is_trained(std::size_t index) const {
  const auto& tensor = parameter(index).tensor;  // 1.13 keeps the gradient of a frozen one
  return is_managed(index) && tensor.requires_grad() && tensor.grad().defined();
}

std::vector<std::size_t> NamedOptimizer::trained() const {
  std::vector<std::size_t> indices;
  for (const auto index : managed_) {
    if (is_trained(index)) indices.push_back(index);
  }
  return indices;
}

std::vector<torch::Tensor> NamedOptimizer::gradients(
    const std::vector<std::size_t>& indices) const {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(indices.size());
  for (const auto index : indices) tensors.push_back(parameter(index).tensor.grad());
  return tensors;
}

torch::Tensor NamedOptimizer::step(LossClosure closure) {
  if (device_session_) read_steps();  // the counts go on from there
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    try {
      loss = closure();
    } catch (...) {
      on_closure_failed();
      throw;
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  on_step_begin();
  // add_param_group() and add_parameters() of the base class are not virtual, and options may have
  // been changed in place.
  index_parameters();
  if (const auto culprit = find_non_finite(); !culprit.empty()) {
    reject(culprit, kNothingChanged);
    ++skipped_steps_;
    return loss;
  }
  if (update_fused(/*step=*/nullptr, /*counted=*/0)) {
    count_fused_steps(trained(), 1);
  } else {
    update();
  }
  ++steps_;
  on_step_end();
  return loss;
}

/// Throws unless rejected steps are skipped.
void NamedOptimizer::reject(const std::string& culprit, const std::string& consequence) {
  if (codec_->non_finite_policy(param_groups_[0].options()) == NonFinitePolicy::Skip) return;
  throw NonFiniteError(label() + ": " + culprit + "; the step was rejected " + consequence);
}

void NamedOptimizer::check_dense() const {
  for (const auto index : trained()) {
    const auto& gradient = parameter(index).tensor.grad();
    TORCH_CHECK(gradient.layout() == torch::kStrided, label(), ": the gradient of '",
                parameter(index).name, "' is ", gradient.layout(), ", expected a dense one");
  }
}

std::string NamedOptimizer::find_non_finite() const {
  check_dense();
  const auto others = checked();
  std::vector<torch::Tensor> tensors;
  tensors.reserve(others.size());
  for (const auto& other : others) tensors.push_back(other.first);
  const auto culprit = first_non_finite(tensors);
  return culprit < others.size() ? others[culprit].second : non_finite_gradient(*this, model_);
}

#ifdef ADAACT_WITH_CUDA

void NamedOptimizer::send_learning_rates() {
  if (!device_session_) device_session_ = std::make_unique<DeviceSession>(*this);
  device_session_->send_learning_rates(*this);
}

void NamedOptimizer::enqueue_step() {
  TORCH_CHECK(device_session_, label(), ": enqueue_step() without send_learning_rates() before it");
  const torch::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  on_step_begin();
  index_parameters();
  check_dense();
  auto all = checked();
  on_device_ = trained();
  for (const auto index : on_device_) {
    all.emplace_back(parameter(index).tensor.grad(),
                     "the gradient of '" + parameter(index).name + "' is not finite");
  }
  device_session_->begin(all);
  TORCH_CHECK(update_fused(&device_session_->step(), device_session_->counted()), label(),
              ": this step cannot be captured in a CUDA graph, which needs dense parameters on one "
              "GPU and layers that are used whole; take it with step()");
  device_session_->end();
}

void NamedOptimizer::read_steps() {
  if (!device_session_) return;
  const auto news = device_session_->read();
  steps_ += news.accepted;
  count_fused_steps(on_device_, news.accepted);
  if (news.rejected == 0) return;
  reject(news.complaint, kLaterStepsTaken);
  skipped_steps_ += news.rejected;
}

#else

void NamedOptimizer::send_learning_rates() {
  TORCH_CHECK(false, label(), ": steps on a device need a build with CUDA");
}
void NamedOptimizer::enqueue_step() { send_learning_rates(); }
void NamedOptimizer::read_steps() {}

#endif

OptimizerState NamedOptimizer::export_state() const {
  auto exported = export_named_state(*this, model_, *codec_);
  exported.counters = {{kSteps, steps_}, {kSkippedSteps, skipped_steps_}};
  return exported;
}

void NamedOptimizer::import_state(const OptimizerState& saved, const std::string& source) {
  const auto steps = counter_of(saved, kSteps, source);
  const auto skipped_steps = counter_of(saved, kSkippedSteps, source);
  import_named_state(*this, model_, *codec_, saved, source);
  steps_ = steps;
  skipped_steps_ = skipped_steps;
  device_session_.reset();  // it counted from the state before
  index_parameters();
  on_state_loaded();
}

void NamedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  write_to_archive(export_state(), archive);
}

void NamedOptimizer::load(torch::serialize::InputArchive& archive) {
  import_state(read_from_archive(archive), "archive");
}

}  // namespace adaact
