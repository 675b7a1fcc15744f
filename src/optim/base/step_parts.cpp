#include "optim/base/step_parts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <adaact/optim/named_optimizer.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>

#include "kernels/all_finite.h"
#include "kernels/each_once.h"
#include "optim/base/parameter_update.h"
#include "optim/base/state_codec.h"
#include "optim/device/device_session.h"

namespace adaact {
namespace {

constexpr char kGradient[] = "the gradient of";

// How an error about a rejected step ends.
constexpr char kNothingChanged[] = "and nothing has changed";
constexpr char kLaterStepsTaken[] = "and changed nothing, but those enqueued after it were taken";

/// A step is no part of what it trains.
struct OutsideOfTraining {
  const torch::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

bool same_values(const std::vector<Checked>& one, const std::vector<Checked>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const Checked& left, const Checked& right) {
                      return std::strcmp(left.what, right.what) == 0 &&
                             left.parameter == right.parameter;
                    });
}

std::vector<torch::Tensor> tensors_of(const std::vector<Checked>& checked) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(checked.size());
  for (const auto& each : checked) {
    tensors.push_back(each.tensor.is_sparse() ? each.tensor._values() : each.tensor);
  }
  return tensors;
}

}  // namespace

StepParts* StepParts::of(torch::optim::Optimizer& optimizer) {
  auto* algorithm = dynamic_cast<StepAlgorithm*>(&optimizer);
  return algorithm == nullptr ? nullptr : &algorithm->step_parts();
}

const StepParts* StepParts::of(const torch::optim::Optimizer& optimizer) {
  return of(
      const_cast<torch::optim::Optimizer&>(optimizer));  // NOLINT(*-const-cast): only passed on
}

StepParts::StepParts(torch::optim::Optimizer& optimizer, StepAlgorithm& algorithm, LayerMap model,
                     const StateCodec& codec)
    : optimizer_(&optimizer),
      algorithm_(&algorithm),
      codec_(&codec),
      model_(std::move(model)),
      group_of_(model_.parameters().size()),
      shapes_(model_.parameters().size()) {
  TORCH_CHECK(!model_.parameters().empty(), codec.optimizer(), ": the model has no parameters");
}

StepParts::~StepParts() = default;

void StepParts::rebind(torch::optim::Optimizer& optimizer, StepAlgorithm& algorithm) {
  optimizer_ = &optimizer;
  algorithm_ = &algorithm;
}

void StepParts::index_parameters() {
  const auto& groups = optimizer_->param_groups();
  const auto owner = codec_->optimizer();
  std::vector<std::size_t> managed;
  std::set<std::size_t> with_tied;  // groups
  std::vector<std::optional<std::size_t>> group_of(model_.parameters().size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    codec_->check(groups[g].options());
    check_same_policy(*codec_, groups[g].options(), groups[0].options());
    for (const auto& tensor : groups[g].params()) {
      const auto index = index_in_model(model_, tensor, owner);
      if (group_of[index] == g) {  // tied, and listed under each name
        with_tied.insert(g);
        continue;
      }
      const auto& parameter = model_.parameters()[index];
      TORCH_CHECK(!group_of[index], owner, ": '", parameter.name, "' is in two parameter groups, ",
                  *group_of[index], " and ", g);
      check_complex(*codec_, groups[g].options(), parameter);
      group_of[index] = g;
      managed.push_back(index);
    }
  }
  // LibTorch's loops go over the lists, and would step a tied parameter under each of its names.
  for (const auto g : with_tied) {
    auto& params = optimizer_->param_groups()[g].params();
    params = each_once(params);
  }
  managed_ = std::move(managed);
  group_of_ = std::move(group_of);
  algorithm_->on_groups_indexed();
}

bool StepParts::is_trained(std::size_t index) const {
  const auto& tensor = model_.parameters()[index].tensor;
  // LibTorch 1.13 keeps the gradient of a parameter that was frozen.
  return group_of_[index] && tensor.requires_grad() && tensor.grad().defined();
}

std::vector<std::size_t> StepParts::trained() const {
  std::vector<std::size_t> trained;
  std::copy_if(managed_.begin(), managed_.end(), std::back_inserter(trained),
               [this](std::size_t index) { return is_trained(index); });
  return trained;
}

torch::Tensor StepParts::step(const torch::optim::Optimizer::LossClosure& closure) {
  if (verdict_ == Verdict::Device) settle();  // what was replayed: the counts go on from there
  const torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    try {
      loss = closure();
    } catch (...) {
      algorithm_->drop_observations();
      throw;
    }
  }
  measure(Verdict::Host);
  decide();
  apply();
  settle();
  return loss;
}

void StepParts::measure(Verdict verdict) {
  const OutsideOfTraining outside;
  forget_step();
  try {
    measured_.statistics = algorithm_->measure();
  } catch (...) {
    algorithm_->drop_observations();
    throw;
  }
  // add_param_group() and add_parameters() of LibTorch's class are not virtual, and options may have
  // been changed in place.
  index_parameters();
  check_parameters();
  for (const auto& parameter : model_.parameters()) {
    measured_.gradients.push_back(parameter.tensor.grad());
  }
  auto checked = everything_checked();
  TORCH_CHECK(verdict == Verdict::Host || host_work_ == HostWork::Nothing, codec_->optimizer(),
              ": this step cannot be left to the device, because the host decides in it");
  TORCH_CHECK(verdict == Verdict::Host || verdict_ == Verdict::Host || checked_.empty() ||
                  same_values(checked_, checked),
              codec_->optimizer(),
              ": this step on the device has other gradients or observations than the first one, "
              "expected the same in all");
  const auto tensors = tensors_of(checked);
  is_in_session_ = DeviceSession::can_check(tensors);
  TORCH_CHECK(verdict == Verdict::Host || is_in_session_, codec_->optimizer(),
              ": a step that the host does not see needs gradients on one GPU");
  if (is_in_session_) begin_session(tensors, verdict);
  checked_ = std::move(checked);
  verdict_ = verdict;
}

/// Throws where a parameter is not what its state was made for, or where its gradient is none that it can
/// take: what follows writes to buffers of the one by the size of the other.
void StepParts::check_parameters() const {
  const auto owner = codec_->optimizer();
  for (const auto index : managed_) {
    const auto& name = model_.parameters()[index].name;
    const auto& tensor = model_.parameters()[index].tensor;
    TORCH_CHECK(!tensor.is_meta(), owner, ": '", name,
                "' is on meta, expected a device with memory");
    const auto& known = shapes_[index];
    TORCH_CHECK(!known || tensor.sizes() == *known, owner, ": '", name, "' has shape ",
                tensor.sizes(), ", expected ", at::IntArrayRef(*known),
                ", which it had in the steps before; make a new optimizer for the new shape");
  }
  for (const auto index : trained()) {
    const auto& parameter = model_.parameters()[index];
    TORCH_CHECK(
        algorithm_->takes_sparse_gradients() || parameter.tensor.grad().layout() == torch::kStrided,
        owner, ": the gradient of '", parameter.name, "' is ", parameter.tensor.grad().layout(),
        ", expected a dense one");
    check_gradient_fits(owner, parameter.name, parameter.tensor);
  }
}

void StepParts::remember_shapes() {
  for (const auto index : managed_) {
    const auto sizes = model_.parameters()[index].tensor.sizes();
    if (!shapes_[index] || sizes != *shapes_[index]) shapes_[index] = sizes.vec();
  }
}

std::vector<Checked> StepParts::everything_checked() const {
  auto checked = measured_.statistics->checked;
  for (const auto index : trained()) {
    checked.push_back({measured_.gradients[index], kGradient, index});
  }
  return checked;
}

/// Only enqueues the search for what is not finite.
void StepParts::begin_session(const std::vector<torch::Tensor>& tensors, Verdict verdict) {
  const auto groups = static_cast<std::int64_t>(optimizer_->param_groups().size());
  if (!session_ || !session_->is_for(groups, tensors[0].device())) {
    session_ = std::make_unique<DeviceSession>(groups, tensors[0].device());
    ++sessions_;
    ++version_;
    if (verdict == Verdict::Device) send_learning_rates();
  }
  session_->begin(tensors);
}

void StepParts::decide() {
  const OutsideOfTraining outside;
  auto forget = c10::make_scope_exit([this] { forget_step(); });  // however this ends, but well
  if (verdict_ == Verdict::Host) {
    if (is_in_session_) wait_for_stream_();
    const auto culprit =
        is_in_session_ ? session_->culprit() : first_non_finite(tensors_of(checked_));
    report_outsized();
    if (culprit) {
      reject(*culprit, kNothingChanged);
      ++skipped_steps_;
      return;
    }
  }
  if (is_in_session_ && host_work_ == HostWork::Decides) send_learning_rates();
  algorithm_->decide(*measured_.statistics);
  forget.release();
  accepted_ = true;
}

void StepParts::apply() {
  if (verdict_ == Verdict::Host && !accepted_) return;
  const OutsideOfTraining outside;
  auto forget = c10::make_scope_exit([this] { forget_step(); });
  algorithm_->apply(*measured_.statistics);
  if (numbers().step != nullptr) session_->end();
  if (verdict_ == Verdict::Host) forget.release();  // until it is settled
}

void StepParts::settle() {
  if (verdict_ == Verdict::Device) {
    settle_steps_of_device();
    return;
  }
  if (!accepted_) return;
  if (numbers().step != nullptr) session_->count_accepted();
  if (host_work_ == HostWork::Nothing) ++version_;  // what was recorded knows older counts
  has_taken_step_ = true;
  ++steps_;
  remember_shapes();
  forget_step();
  algorithm_->settle(1);
}

void StepParts::settle_steps_of_device() {
  const auto news = session_->read();
  steps_ += news.accepted;
  if (news.accepted > 0) algorithm_->settle(news.accepted);
  report_outsized();
  if (news.rejected == 0) return;
  reject(news.culprit, kLaterStepsTaken);
  skipped_steps_ += news.rejected;
}

/// Lets go of gradients and statistics. What was checked stays known by name: a step on the device may still
/// turn out to be rejected.
void StepParts::forget_step() {
  measured_ = {};
  for (auto& each : checked_) each.tensor = torch::Tensor();
  is_in_session_ = false;
  accepted_ = false;
}

/// Throws unless rejected steps are skipped.
void StepParts::reject(std::size_t culprit, const char* consequence) const {
  if (algorithm_->non_finite_policy() == NonFinitePolicy::Skip) return;
  const auto& checked = checked_.at(culprit);
  throw NonFiniteError(codec_->optimizer() + ": " + checked.what + " '" +
                       model_.parameters()[checked.parameter].name +
                       "' is not finite; the step was rejected " + consequence);
}

/// The device says it with its next answer, an eager step's with the next step's.
void StepParts::report_outsized() {
  if (!session_) return;
  if (const auto parameter = session_->take_outsized()) algorithm_->on_outsized_change(*parameter);
}

void StepParts::send_learning_rates() {
  TORCH_CHECK(session_, codec_->optimizer(),
              ": steps on a device were asked for before a step on a GPU was taken");
  std::vector<double> rates;
  for (const auto& group : optimizer_->param_groups()) rates.push_back(group.options().get_lr());
  session_->send_learning_rates(rates);
}

void StepParts::resume(const Measured& measured) {
  forget_step();
  measured_ = measured;
  const auto& parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].tensor.mutable_grad() = measured.gradients[i];
  }
  checked_ = everything_checked();
  verdict_ = Verdict::Host;
  is_in_session_ = DeviceSession::can_check(tensors_of(checked_));  // and the replay has looked
}

StepParts::Numbers StepParts::numbers() const {
  const bool on_device =
      is_in_session_ && (verdict_ == Verdict::Device || host_work_ == HostWork::Decides);
  if (!on_device) return {};
  return {&session_->step(), session_->counted()};
}

torch::Tensor StepParts::outsized() const {
  return is_in_session_ ? session_->step().outsized : torch::Tensor();
}

void StepParts::check_seen_by_host(const char* needed) const {
  TORCH_CHECK(verdict_ == Verdict::Host, codec_->optimizer(),
              ": this step cannot be captured in a CUDA graph, which needs ", needed,
              "; take it with step()");
}

void StepParts::works_on(std::vector<const void*> memory) {
  if (memory == memory_) return;
  memory_ = std::move(memory);
  ++version_;
}

OptimizerState StepParts::export_state() const {
  auto exported = export_named_state(*optimizer_, model_, *codec_);
  exported.counters = {{kSteps, steps_}, {kSkippedSteps, skipped_steps_}};
  return exported;
}

void StepParts::import_state(const OptimizerState& saved, const std::string& source) {
  const auto steps = counter_of(saved, kSteps, source);
  const auto skipped_steps = counter_of(saved, kSkippedSteps, source);
  import_named_state(*optimizer_, model_, *codec_, saved, source);
  steps_ = steps;
  skipped_steps_ = skipped_steps;
  session_.reset();  // it counted from the state before
  ++sessions_;
  verdict_ = Verdict::Host;
  forget_step();
  memory_.clear();
  ++version_;
  has_taken_step_ = false;
  index_parameters();
  remember_shapes();
}

}  // namespace adaact
