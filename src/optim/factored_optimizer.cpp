#include <adaact/optim/factored_optimizer.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "optim/all_finite.h"
#include "optim/factor_listener.h"
#include "optim/kronecker_factors.h"
#include "optim/param_state.h"
#include "optim/parameter_update.h"

namespace adaact {

struct FactoredOptimizer::Internals {
  explicit Internals(const LayerMap& model) : listener(std::make_shared<FactorListener>(model)) {}

  std::shared_ptr<FactorListener> listener;
  std::vector<FactorSums> sums;           // of the step being taken
  std::vector<std::size_t> joint_biases;  // per parameter; kNotFound: none
  std::set<std::size_t> logged;           // weights whose factors are known to be too large
};

namespace {

/// Moves factors to where their weight went with model->to(…).
void follow(KroneckerFactors& factors, const torch::Tensor& weight) {
  for (auto* tensor :
       {&factors.a, &factors.p, &factors.a_inverse, &factors.p_inverse, &factors.a_vectors,
        &factors.a_values, &factors.p_vectors, &factors.p_values}) {
    if (tensor->defined()) *tensor = following(*tensor, weight);
  }
}

torch::Tensor unbiased(const torch::Tensor& average, const KroneckerFactors& factors,
                       double beta2) {
  return average.defined() ? average / bias_correction(beta2, factors.updates) : average;
}

}  // namespace

FactoredOptimizer::FactoredOptimizer(LayerMap its_model,
                                     std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                                     const StateCodec& codec)
    : ObservingOptimizer(std::move(its_model), std::move(defaults), codec),
      internals_(std::make_unique<Internals>(model())) {
  start_observing(internals_->listener);
}

FactoredOptimizer::FactoredOptimizer(FactoredOptimizer&&) noexcept = default;
FactoredOptimizer::~FactoredOptimizer() = default;

FactoredParamState& FactoredOptimizer::state_of(std::size_t index) {
  return get_or_make_param_state<FactoredParamState>(state_, parameter(index).tensor);
}

const std::vector<KroneckerFactors>* FactoredOptimizer::find_factors(std::size_t index) const {
  const auto* state = find_param_state<FactoredParamState>(state_, parameter(index).tensor);
  return state == nullptr || state->factors().empty() ? nullptr : &state->factors();
}

void FactoredOptimizer::on_groups_indexed() {
  internals_->joint_biases.assign(model().parameters().size(), LayerMap::kNotFound);
  for (const auto index : managed()) {
    if (parameter(index).tensor.dim() >= 2) internals_->joint_biases[index] = joint_bias(index);
  }
  choose_what_to_measure();
}

void FactoredOptimizer::choose_what_to_measure() {
  std::vector<FactorListener::Layer> layers(model().parameters().size());
  for (const auto index : managed()) {
    const auto settings = settings_of(index);
    auto& layer = layers[index];
    layer.measured = steps() % settings.covariance_period == 0 || find_factors(index) == nullptr;
    layer.with_bias = internals_->joint_biases[index] != LayerMap::kNotFound;
    layer.with_gradients = settings.with_gradients;
    layer.max_size = settings.max_factor_size;
  }
  internals_->listener->set_layers(std::move(layers));
}

void FactoredOptimizer::take_observations() { internals_->sums = internals_->listener->take(); }

std::string FactoredOptimizer::find_other_non_finite() const {
  for (const auto& sums : internals_->sums) {
    const auto& name = parameter(sums.weight).name;
    if (!all_finite(sums.inputs.sum)) {
      return "the input of the layer with weight '" + name + "' is not finite";
    }
    if (sums.gradients.sum.defined() && !all_finite(sums.gradients.sum)) {
      return "the output gradient of the layer with weight '" + name + "' is not finite";
    }
  }
  return {};
}

void FactoredOptimizer::update_factors() {
  std::map<std::size_t, std::vector<FactorSums>> by_weight;
  for (auto& sums : std::exchange(internals_->sums, {})) {
    if (!is_managed(sums.weight)) continue;
    // No backward pass has come through here.
    if (settings_of(sums.weight).with_gradients && !sums.gradients.sum.defined()) continue;
    by_weight[sums.weight].push_back(std::move(sums));
  }
  // All new values first, then all changes: whatever fails here leaves every layer as it was.
  std::map<std::size_t, std::vector<KroneckerFactors>> changes;
  for (const auto weight : managed()) {
    const auto settings = settings_of(weight);
    const auto* known = find_factors(weight);
    const auto observed = by_weight.find(weight);
    if (known == nullptr && observed == by_weight.end()) continue;
    auto factors = known == nullptr ? std::vector<KroneckerFactors>{} : *known;
    for (auto& each : factors) follow(each, parameter(weight).tensor);
    if (observed != by_weight.end()) {
      factors = averaged(std::move(factors), std::move(observed->second), settings);
    }
    const bool due = steps() % settings.inverse_period == 0;
    for (auto& each : factors) {
      if (!due && each.is_inverted()) continue;
      invert(each, unbiased(each.a, each, settings.beta2), unbiased(each.p, each, settings.beta2),
             weight);
    }
    changes[weight] = std::move(factors);
  }
  for (auto& [weight, factors] : changes) state_of(weight).factors(std::move(factors));
}

/// v of a gradient (rows, n); rows without factors keep theirs.
torch::Tensor FactoredOptimizer::preconditioned(const torch::Tensor& gradient,
                                                std::size_t weight) const {
  auto v = gradient.clone();
  for (const auto& factors : *find_factors(weight)) {
    const auto groups = factors.a.size(0);
    const auto rows = factors.end - factors.begin;
    const auto g = gradient.narrow(0, factors.begin, rows).view({groups, rows / groups, -1});
    v.narrow(0, factors.begin, rows).copy_(precondition(g, factors, weight).view({rows, -1}));
  }
  return v;
}

void FactoredOptimizer::update() {
  update_factors();

  std::map<std::size_t, torch::Tensor> preconditioned_gradients;
  double change = 0.0;  // Σ η² v·g
  const auto add = [&](std::size_t index, const torch::Tensor& v, const torch::Tensor& g) {
    const auto lr = settings_of(index).lr;
    change += lr * lr * (v * g).sum().item<double>();
    preconditioned_gradients[index] = v.reshape(parameter(index).tensor.sizes());
  };
  const auto indices = trained();
  for (const auto weight : indices) {
    const auto* factors = find_factors(weight);
    if (factors == nullptr) continue;
    const auto& tensor = parameter(weight).tensor;
    const auto features = tensor.numel() / tensor.size(0);
    const auto state_dtype = sum_dtype(tensor);
    auto g = gradient_of(tensor).to(state_dtype).view({tensor.size(0), -1});  // (rows, n)
    const auto bias = internals_->joint_biases[weight];
    const bool has_bias_column = factors->front().a.size(-1) > features;
    const bool with_bias = has_bias_column && bias != LayerMap::kNotFound && is_trained(bias);
    if (has_bias_column) {
      const auto column = with_bias
                              ? gradient_of(parameter(bias).tensor).to(state_dtype).view({-1, 1})
                              : torch::zeros({g.size(0), 1}, g.options());  // of a bias that stays
      g = torch::cat({g, column}, 1);                                       // (rows, n + 1)
    }
    const auto v = preconditioned(g, weight);
    add(weight, v.narrow(1, 0, features), g.narrow(1, 0, features));
    if (with_bias) add(bias, v.select(1, features), g.select(1, features));
  }

  for (const auto index : indices) {
    const auto found = preconditioned_gradients.find(index);
    if (found == preconditioned_gradients.end()) {
      apply(index, gradient_of(parameter(index).tensor));
    } else {
      const auto kl_clip = settings_of(index).kl_clip;
      const auto nu = change > kl_clip ? std::sqrt(kl_clip / change) : 1.0;  // ν
      apply(index, found->second * nu);
    }
  }
}

void FactoredOptimizer::apply(std::size_t index, const torch::Tensor& v) {
  const auto settings = settings_of(index);
  const auto& tensor = parameter(index).tensor;
  auto theta = tensor.detach();
  const auto old = theta.to(sum_dtype(tensor));
  auto d = v.to(old.dtype()).add(old, settings.weight_decay);
  if (settings.momentum != 0.0) {
    auto& buffer = state_of(index).momentum_buffer();
    prepare_buffer(buffer, tensor);
    d = buffer.mul_(settings.momentum).add_(d);
  }
  theta.add_(d.to(theta.dtype()), -settings.lr);
}

void FactoredOptimizer::on_step_end() {
  choose_what_to_measure();
  log_factors_too_large();
  ObservingOptimizer::on_step_end();
}

void FactoredOptimizer::log_factors_too_large() {
  for (const auto index : managed()) {
    const auto size = internals_->listener->excessive_size(index);
    if (size == 0 || !internals_->logged.insert(index).second) continue;
    TORCH_WARN(label(), ": a factor of '", parameter(index).name, "' would have ", size,
               " rows, more than max_factor_size ", settings_of(index).max_factor_size,
               "; this layer is trained by momentum SGD");
  }
}

std::string FactoredOptimizer::why_observed(std::size_t index) const {
  if (find_factors(index) != nullptr) return "weight of an observed layer";
  for (const auto weight : managed()) {
    const auto* factors = find_factors(weight);
    if (factors != nullptr && internals_->joint_biases[weight] == index) {
      return "bias of an observed layer";
    }
  }
  return {};
}

std::string FactoredOptimizer::why_not_observed(std::size_t index) const {
  const auto size = internals_->listener->excessive_size(index);
  if (size == 0) return {};
  return "a factor would have " + std::to_string(size) + " rows, more than max_factor_size " +
         std::to_string(settings_of(index).max_factor_size);
}

}  // namespace adaact
