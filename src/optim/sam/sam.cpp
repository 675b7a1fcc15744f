// Symbols of the paper and where they live:
//
//   ρ       radius of the neighbourhood                     SamOptions::rho
//   e       ρ g / ‖g‖, the step up                          perturbation
//           ρ θ² g / ‖ |θ| g ‖ for the adaptive form
//   θ + e   where the second gradient is taken              Sam::climb

#include <adaact/optim/sam.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/lbfgs.h>

#include "io/json_text.h"
#include "kernels/all_finite.h"
#include "kernels/each_once.h"
#include "kernels/global_norm.h"
#include "optim/base/parameter_update.h"
#include "optim/device/device_session.h"
#include "optim/libtorch/libtorch_codec.h"

namespace adaact {

template <>
struct OptionDescription<SamOptions> {
  static constexpr char kOptimizer[] = "Sam";

  template <typename Options, typename Visitor>
  static void visit(Options& options, Visitor&& visit) {
    visit("rho", options.rho(), at_least(0.0));
    visit("adaptive", options.adaptive(), AnyBool());
    visit("non_finite_policy", options.non_finite_policy(), non_finite_policy_names());
  }
};

namespace {

using nlohmann::json;

constexpr double kNormFloor = 1e-12;
constexpr char kStepsSkippedBySam[] = "sam_skipped_steps";

/// Puts tensors back to the values they had, at the latest when a scope is left.
class Restore {
 public:
  explicit Restore(std::vector<torch::Tensor> tensors) : tensors_(std::move(tensors)) {
    for (const auto& tensor : tensors_) values_.push_back(tensor.detach().clone());
  }
  ~Restore() {
    try {
      put_back();
    } catch (...) {  // an exception is under way already, and says more
    }
  }
  void put_back() {
    const torch::NoGradGuard no_grad;
    const auto tensors = std::exchange(tensors_, {});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].sizes() == values_[i].sizes()) {
        tensors[i].detach().copy_(values_[i]);
      } else {
        tensors[i].set_data(values_[i]);  // it was replaced in between
      }
    }
    at::autocast::clear_cache();
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> values_;
};

bool is_trained(const torch::Tensor& parameter) {
  return parameter.requires_grad() && parameter.grad().defined();
}

/// g, or |θ| g for the adaptive form: what the norm is taken of.
torch::Tensor weighted_gradient(const torch::Tensor& theta, bool adaptive) {
  const auto& g = theta.grad();
  return adaptive ? theta.detach().abs() * g : g;
}

torch::Tensor perturbation(const torch::Tensor& theta, const SamOptions& options, double norm) {
  const auto scale = options.rho() / (norm + kNormFloor);
  const auto& g = theta.grad();
  return (options.adaptive() ? theta.detach().square() * g : g) * scale;  // e
}

/// The base's state under names, if it has one.
OptimizerState state_of_base(const torch::optim::Optimizer& base, const LayerMap& model) {
  if (const auto* named = dynamic_cast<const HasNamedState*>(&base)) return named->export_state();
  const auto* codec = codec_of_libtorch(base);
  TORCH_CHECK(codec != nullptr, "Sam: the state of the base optimizer has no names");
  return export_named_state(base, model, *codec);
}

void set_state_of_base(torch::optim::Optimizer& base, const LayerMap& model,
                       const OptimizerState& state, const std::string& source) {
  if (auto* named = dynamic_cast<HasNamedState*>(&base)) {
    named->import_state(state, source);
  } else {
    import_named_state(base, model, *codec_of_libtorch(base), state, source);
  }
}

std::string name_of(const LayerMap& model, const torch::Tensor& parameter) {
  const auto index = model.find(parameter);
  return index ? model.parameters()[*index].name : "a parameter";
}

/// "the gradient of 'fc.weight' is not finite", or nothing if all of the optimizer's are.
std::string non_finite_gradient(const torch::optim::Optimizer& optimizer, const LayerMap& model) {
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto& gradient = parameter.grad();
      if (!parameter.requires_grad() || !gradient.defined()) continue;
      check_gradient_fits("Sam", name_of(model, parameter), parameter);
      gradients.push_back(gradient.is_sparse() ? gradient._values() : gradient);
      parameters.push_back(parameter);
    }
  }
  std::optional<std::size_t> culprit;
  if (DeviceSession::can_check(gradients)) {  // one launch and one wait for all
    DeviceSession session(/*groups=*/1, gradients[0].device());
    session.begin(gradients);
    culprit = session.culprit();
  } else {
    culprit = first_non_finite(gradients);
  }
  if (!culprit) return {};
  return "the gradient of '" + name_of(model, parameters[*culprit]) + "' is not finite";
}

std::string sam_of(const std::string& base) { return "Sam(" + base + ")"; }

}  // namespace

SamOptions::SamOptions(double rho) : rho_(rho) {}

torch::optim::OptimizerOptions& SamOptions::of_base() const {
  const auto base = base_.lock();
  TORCH_CHECK(base, "Sam: these options belong to no optimizer; the learning rate is the base's");
  return base->param_groups()[group_].options();
}

double SamOptions::lr() const { return of_base().get_lr(); }

SamOptions& SamOptions::lr(double lr) {
  of_base().set_lr(lr);
  return *this;
}

template struct JsonOptions<SamOptions>;

Sam::Sam(torch::nn::Module& module, std::unique_ptr<torch::optim::Optimizer> base,
         const SamOptions& defaults)
    : Sam(LayerMap(module), module.buffers(), std::move(base), defaults) {}

Sam::Sam(LayerMap model, std::vector<torch::Tensor> buffers,
         std::unique_ptr<torch::optim::Optimizer> base, const SamOptions& defaults)
    : Optimizer(std::vector<torch::optim::OptimizerParamGroup>{},
                std::make_unique<SamOptions>(defaults)),
      model_(std::move(model)),
      buffers_(std::move(buffers)),
      base_(std::move(base)) {
  defaults.validate();
  TORCH_CHECK(base_ != nullptr, "Sam: there is no base optimizer");
  TORCH_CHECK(dynamic_cast<Sam*>(base_.get()) == nullptr &&
                  dynamic_cast<torch::optim::LBFGS*>(base_.get()) == nullptr,
              "Sam: the base optimizer needs a closure itself (another Sam, or LBFGS)");
  for (const auto& group : base_->param_groups()) {
    for (const auto& parameter : group.params()) index_in_model(model_, parameter, "Sam");
  }
  follow_base_groups();
}

void Sam::share_with(const std::shared_ptr<Communicator>& ranks, ShareFactors factors) {
  adaact::share_statistics(*base_, ranks, factors);
}

const SamOptions& Sam::options_of(const torch::optim::OptimizerParamGroup& group) const {
  const auto* options = dynamic_cast<const SamOptions*>(&group.options());
  TORCH_CHECK(options != nullptr, "Sam: the options of a parameter group are not SamOptions");
  return *options;
}

void Sam::bind(SamOptions& options, std::size_t group) const {
  options.base_ = base_;
  options.group_ = group;
}

void Sam::add_param_group(const torch::optim::OptimizerParamGroup& param_group) {
  if (auto* named = dynamic_cast<NamedOptimizer*>(base_.get())) {
    named->add_param_group(param_group);
  } else {
    base_->add_param_group(param_group);
  }
  follow_base_groups();
}

void Sam::follow_base_groups() {
  const auto& groups = base_->param_groups();
  TORCH_CHECK(param_groups_.size() <= groups.size(), "Sam: there are ", param_groups_.size(),
              " parameter groups, but the base optimizer has ", groups.size(),
              "; add groups by Sam::add_param_group() or to the base");
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (g == param_groups_.size()) {
      param_groups_.emplace_back(std::vector<torch::Tensor>{}, defaults().clone());
    }
    const auto& options = options_of(param_groups_[g]);
    options.validate();
    TORCH_CHECK(options.non_finite_policy() == options_of(param_groups_[0]).non_finite_policy(),
                "Sam: non_finite_policy differs between parameter groups; a step is rejected as a "
                "whole, so it must be the same in all");
    bind(static_cast<SamOptions&>(param_groups_[g].options()), g);
    param_groups_[g].params() = each_once(groups[g].params());
  }
}

torch::Tensor Sam::step(LossClosure closure) {
  TORCH_CHECK(
      closure,
      "Sam: step() needs a closure that computes the loss and its gradients: it runs twice");
  const torch::NoGradGuard no_grad;
  follow_base_groups();
  try {
    return take_step(closure);
  } catch (...) {
    if (auto* observing = dynamic_cast<ObservingOptimizer*>(base_.get())) {
      observing->discard_observations();
    }
    throw;
  }
}

torch::Tensor Sam::take_step(const LossClosure& closure) {
  const auto run = [&closure] {
    const at::AutoGradMode with_grad(true);
    return closure();
  };
  const auto loss = run();
  if (rejects("at the parameters")) return loss;
  {
    std::optional<ObservationPause> pause;
    if (const auto* observing = dynamic_cast<const ObservingOptimizer*>(base_.get())) {
      pause.emplace(observing->pause_observation());
    }
    std::vector<torch::Tensor> changing = buffers_;
    for (const auto& group : param_groups_) {
      std::copy_if(group.params().begin(), group.params().end(), std::back_inserter(changing),
                   is_trained);
    }
    Restore restore(std::move(changing));
    climb();
    zero_grad();
    run();
    restore.put_back();
  }
  if (rejects("after the step up")) return loss;
  try {
    base_->step();
  } catch (const NonFiniteError& error) {  // of what the base observes
    reject(error.what());
  }
  return loss;
}

bool Sam::rejects(const std::string& when) {
  const auto culprit = non_finite_gradient(*base_, model_);
  if (culprit.empty()) return false;
  reject("Sam: " + culprit + " " + when + "; the step was rejected and nothing has changed");
  return true;
}

void Sam::reject(const std::string& why) {
  if (options_of(param_groups_[0]).non_finite_policy() == NonFinitePolicy::Throw) {
    throw NonFiniteError(why);
  }
  if (auto* observing = dynamic_cast<ObservingOptimizer*>(base_.get())) {
    observing->discard_observations();
  }
  ++skipped_steps_;
}

void Sam::climb() {
  std::vector<torch::Tensor> weighted;
  for (const auto& group : param_groups_) {
    for (const auto& theta : group.params()) {
      if (is_trained(theta)) {
        weighted.push_back(weighted_gradient(theta, options_of(group).adaptive()));
      }
    }
  }
  const auto norm = global_norm(weighted);
  for (const auto& group : param_groups_) {
    for (const auto& theta : group.params()) {
      if (is_trained(theta)) theta.detach().add_(perturbation(theta, options_of(group), norm));
    }
  }
  at::autocast::clear_cache();  // which holds the parameters as they were
}

OptimizerState Sam::export_state() const {
  auto exported = state_of_base(*base_, model_);
  exported.optimizer = sam_of(exported.optimizer);
  exported.counters[kStepsSkippedBySam] = skipped_steps_;
  for (std::size_t g = 0; g < exported.groups.size(); ++g) {
    // A group added to the base since the last step is not yet among ours.
    const auto& of_sam = g < param_groups_.size() ? options_of(param_groups_[g])
                                                  : static_cast<const SamOptions&>(defaults());
    auto& options = exported.groups[g].options;
    options = json{{"sam", json::parse(of_sam.to_json())}, {"base", json::parse(options)}}.dump();
  }
  return exported;
}

void Sam::import_state(const OptimizerState& saved, const std::string& source) {
  follow_base_groups();
  const auto mine = export_state();
  mine.check_that_it_fits(saved, source);
  const auto skipped_steps = counter_of(saved, kStepsSkippedBySam, source);

  auto of_base = saved;
  of_base.optimizer = state_of_base(*base_, model_).optimizer;
  of_base.counters.erase(kStepsSkippedBySam);
  std::vector<SamOptions> options(mine.groups.size());
  for (auto& group : of_base.groups) {
    const auto both = parse_json<json>(group.options, source + ": options");
    TORCH_CHECK(both.is_object() && both.contains("sam") && both.contains("base"),
                "adaact: ", source,
                ": the options of a group are not those of Sam: ", group.options);
    group.options = both["base"].dump();
    for (std::size_t g = 0; g < mine.groups.size(); ++g) {
      const auto& names = mine.groups[g].parameters;
      if (name_the_same(names, group.parameters)) {
        options[g] = options_in(source, [&] { return SamOptions::from_json(both["sam"].dump()); });
      }
    }
  }
  set_state_of_base(*base_, model_, of_base, source);
  for (std::size_t g = 0; g < options.size(); ++g) {
    bind(options[g], g);
    static_cast<SamOptions&>(param_groups_[g].options()) = options[g];
  }
  skipped_steps_ = skipped_steps;
}

void Sam::save(torch::serialize::OutputArchive& archive) const {
  write_to_archive(export_state(), archive);
}

void Sam::load(torch::serialize::InputArchive& archive) {
  import_state(read_from_archive(archive), "archive");
}

}  // namespace adaact
