#include <adaact/optim/named_optimizer.h>

#include <utility>

#include "optim/base/state_codec.h"
#include "optim/base/step_parts.h"

namespace adaact {

NamedOptimizer::NamedOptimizer(LayerMap model,
                               std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                               const StateCodec& codec)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>{}, std::move(defaults)),
      parts_(std::make_unique<StepParts>(*this, *this, std::move(model), codec)) {
  codec.check(*defaults_);
}

NamedOptimizer::NamedOptimizer(NamedOptimizer&& other) noexcept
    : Optimizer(std::move(other)), parts_(std::move(other.parts_)) {
  parts_->rebind(*this, *this);
}

NamedOptimizer::~NamedOptimizer() = default;

void NamedOptimizer::add_param_groups(std::vector<torch::optim::OptimizerParamGroup> param_groups) {
  if (param_groups.empty()) param_groups.emplace_back(model().tensors());
  for (const auto& group : param_groups) add_param_group(group);
}

void NamedOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& param_group) {
  Optimizer::add_param_group(param_group);
  try {
    parts_->index_parameters();
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

torch::Tensor NamedOptimizer::step(LossClosure closure) { return parts_->step(closure); }

std::int64_t NamedOptimizer::steps() const noexcept { return parts_->steps(); }
std::int64_t NamedOptimizer::skipped_steps() const noexcept { return parts_->skipped_steps(); }

std::string NamedOptimizer::label() const { return parts_->codec().optimizer(); }

const LayerMap& NamedOptimizer::model() const noexcept { return parts_->model(); }

const std::vector<std::size_t>& NamedOptimizer::managed() const noexcept {
  return parts_->managed();
}

bool NamedOptimizer::is_managed(std::size_t index) const {
  return parts_->group_of(index).has_value();
}

std::int64_t NamedOptimizer::group_of(std::size_t index) const {
  return static_cast<std::int64_t>(parts_->group_of(index).value());
}

const torch::optim::OptimizerOptions& NamedOptimizer::group_options(std::size_t index) const {
  return param_groups_[parts_->group_of(index).value()].options();
}

std::vector<std::size_t> NamedOptimizer::trained() const { return parts_->trained(); }

bool NamedOptimizer::is_trained(std::size_t index) const { return parts_->is_trained(index); }

std::vector<torch::Tensor> NamedOptimizer::tensors(const std::vector<std::size_t>& indices) const {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(indices.size());
  for (const auto index : indices) tensors.push_back(parameter(index).tensor);
  return tensors;
}

std::vector<torch::Tensor> NamedOptimizer::gradients(
    const std::vector<std::size_t>& indices) const {
  auto gradients = tensors(indices);
  for (auto& tensor : gradients) tensor = tensor.grad();
  return gradients;
}

std::shared_ptr<const StepStatistics> NamedOptimizer::measure() {
  return std::make_shared<StepStatistics>();
}

NonFinitePolicy NamedOptimizer::non_finite_policy() const {
  return parts_->codec().non_finite_policy(param_groups_[0].options());
}

OptimizerState NamedOptimizer::export_state() const { return parts_->export_state(); }

void NamedOptimizer::import_state(const OptimizerState& saved, const std::string& source) {
  parts_->import_state(saved, source);
  on_state_loaded();
}

void NamedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  write_to_archive(export_state(), archive);
}

void NamedOptimizer::load(torch::serialize::InputArchive& archive) {
  import_state(read_from_archive(archive), "archive");
}

}  // namespace adaact
