#include <adaact/optim/factored_optimizer.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "observe/observed_features.h"
#include "optim/base/param_state.h"
#include "optim/base/parameter_update.h"
#include "optim/base/step_parts.h"
#include "optim/kronecker/factor_listener.h"
#include "optim/kronecker/factors_of_ranks.h"
#include "optim/kronecker/kronecker_factors.h"

namespace adaact {

struct FactoredOptimizer::Internals {
  /// A parameter group on one device.
  using Place = std::tuple<std::int64_t, c10::DeviceType, c10::DeviceIndex>;
  static Place place_of(std::int64_t group, const torch::Tensor& parameter) {
    return {group, parameter.device().type(), parameter.device().index()};
  }

  /// η, where an update on a GPU finds it.
  struct Rate {
    double sent = 0.0;
    torch::Tensor on_device;  // () float64
  };

  explicit Internals(const LayerMap& model) : listener(std::make_shared<FactorListener>(model)) {}

  /// What apply() works on. A step that was captured can be replayed only as long as it stays the same.
  static std::vector<const void*> memory_of_step(const FactoredOptimizer& optimizer);

  std::shared_ptr<FactorListener> listener;
  std::vector<std::optional<std::size_t>> joint_biases;  // per parameter of the model
  std::set<std::size_t> logged;  // weights whose factors are known to be too large
  std::map<Place, Rate> rates;
};

namespace {

struct ObservedFactors : StepStatistics {
  std::vector<FactorSums> sums;
};

/// Moves factors to where their weight went with model->to(…).
void follow(KroneckerFactors& factors, const torch::Tensor& weight) {
  visit_tensors(factors, [&weight](const char* /*name*/, torch::Tensor& tensor) {
    if (tensor.defined()) tensor = following(tensor, weight);
  });
}

/// The most columns of any A: n, or n + 1 where the bias was measured with the weight.
std::int64_t most_columns(const std::vector<KroneckerFactors>& factors) {
  std::int64_t most = 0;
  for (const auto& run : factors) most = std::max(most, run.a.size(-1));
  return most;
}

torch::Tensor unbiased(const torch::Tensor& average, const KroneckerFactors& factors,
                       const FactorSettings& settings) {
  if (!average.defined() || settings.starts_at_identity) return average;
  return average / bias_correction(settings.beta2, factors.updates);
}

void stay_in_place(KroneckerFactors& next, const KroneckerFactors& known) {
  if (next.begin != known.begin || next.end != known.end) return;
  std::vector<torch::Tensor> places;
  visit_refreshed(
      known, [&](const char* /*name*/, const torch::Tensor& tensor) { places.push_back(tensor); });
  auto place = places.begin();
  visit_refreshed(next, [&](const char* /*name*/, torch::Tensor& tensor) {
    tensor = in_place_of(*place++, tensor);
  });
}

}  // namespace

FactoredOptimizer::FactoredOptimizer(LayerMap its_model,
                                     std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                                     const StateCodec& codec)
    : ObservingOptimizer(std::move(its_model), std::move(defaults), codec),
      internals_(std::make_unique<Internals>(model())) {
  start_observing(internals_->listener);
  step_parts().set_host_work(HostWork::Decides);
  step_parts().set_layers_to_observe(
      [listener = internals_->listener] { return listener->measured_layers(); });  // those due
}

FactoredOptimizer::FactoredOptimizer(FactoredOptimizer&&) noexcept = default;
FactoredOptimizer::~FactoredOptimizer() = default;

FactoredParamState& FactoredOptimizer::state_of(std::size_t index) {
  return get_or_make_param_state<FactoredParamState>(state_, parameter(index).tensor);
}

const FactoredParamState* FactoredOptimizer::find_state(std::size_t index) const {
  return find_param_state<FactoredParamState>(state_, parameter(index).tensor);
}

const std::vector<KroneckerFactors>* FactoredOptimizer::find_factors(std::size_t index) const {
  const auto* state = find_state(index);
  return state == nullptr || state->factors().empty() ? nullptr : &state->factors();
}

void FactoredOptimizer::on_groups_indexed() {
  internals_->joint_biases.assign(model().parameters().size(), std::nullopt);
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
    layer.with_bias = internals_->joint_biases[index].has_value();
    layer.with_gradients = settings.with_gradients;
    layer.max_size = settings.max_factor_size;
  }
  internals_->listener->set_layers(std::move(layers));
}

std::vector<FactorSums> FactoredOptimizer::observe_on_this_rank() {
  auto& listener = *internals_->listener;
  const auto hidden = listener.hidden_uses();
  auto all_sums = listener.take(shared_sums() == nullptr ? FactorListener::ZeroGradient::IsDropped
                                                         : FactorListener::ZeroGradient::IsThere);
  rethrow_failed_observation();
  for (const auto weight : hidden) {
    TORCH_CHECK(!is_trained(weight), label(), ": the output gradient of the layer with weight '",
                parameter(weight).name,
                "' cannot be seen, because TorchScript differentiates its optimised graph by "
                "itself; call torch::jit::setGraphExecutorOptimize(false) before the module's "
                "first forward pass. Nothing has changed");
  }
  for (const auto& sums : all_sums) {
    check_observed_shape(parameter(sums.weight), sums.end, sums.inputs.sum.size(-1));
  }
  return all_sums;
}

std::shared_ptr<const StepStatistics> FactoredOptimizer::measure() {
  auto observed = std::make_shared<ObservedFactors>();
  observed->sums = shared_sums() == nullptr
                       ? observe_on_this_rank()
                       : sums_of_ranks(
                             *shared_sums(), [this] { return observe_on_this_rank(); },
                             internals_->listener->measured_layers());
  for (const auto& sums : observed->sums) {
    observed->checked.push_back({sums.inputs.sum, kMomentOfInput, sums.weight});
    if (sums.gradients.sum.defined()) {
      observed->checked.push_back(
          {sums.gradients.sum, "the output gradient of the layer with weight", sums.weight});
    }
  }
  return observed;
}

void FactoredOptimizer::clear_observations() { internals_->listener->discard(); }

void FactoredOptimizer::decide(const StepStatistics& statistics) {
  take_over(next_factors(statistics));
  prepare_buffers();
  set_rates();
  step_parts().works_on(Internals::memory_of_step(*this));
}

void FactoredOptimizer::apply(const StepStatistics& /*statistics*/) {
  auto gradients = preconditioned_gradients();
  clip(gradients);
  move_parameters(gradients);
}

void FactoredOptimizer::settle(std::int64_t steps) {
  choose_what_to_measure();
  log_factors_too_large();
  ObservingOptimizer::settle(steps);
}

std::map<std::size_t, FactoredOptimizer::Factors> FactoredOptimizer::next_factors(
    const StepStatistics& statistics) const {
  std::map<std::size_t, std::vector<FactorSums>> by_weight;
  for (const auto& sums : static_cast<const ObservedFactors&>(statistics).sums) {
    if (!is_managed(sums.weight)) continue;
    by_weight[sums.weight].push_back(sums);
  }
  std::map<std::size_t, Factors> next;
  std::vector<DueFactors> due;
  for (const auto weight : managed()) {
    const auto settings = settings_of(weight);
    const auto* known = find_factors(weight);
    const auto observed = by_weight.find(weight);
    if (known == nullptr && observed == by_weight.end()) continue;
    auto factors = known == nullptr ? Factors{} : *known;
    for (auto& each : factors) follow(each, parameter(weight).tensor);
    if (observed != by_weight.end()) {
      factors = averaged(std::move(factors), std::move(observed->second), settings);
    }
    auto& kept = next[weight] = std::move(factors);
    const bool all_are_due = steps() % settings.inverse_period == 0;
    for (auto& each : kept) {
      if (all_are_due || !each.is_inverted()) due.push_back({weight, &each});
    }
  }
  const auto invert_anew = [this](const DueFactors& each) {
    auto& factors = *each.factors;
    const auto settings = settings_of(each.weight);
    invert(factors, unbiased(factors.a, factors, settings), unbiased(factors.p, factors, settings),
           each.weight);
  };
  if (shared_factors() != nullptr) {
    invert_on_ranks(*shared_factors(), due, invert_anew);
  } else {
    for (const auto& each : due) invert_anew(each);
  }
  return next;
}

void FactoredOptimizer::take_over(std::map<std::size_t, Factors>&& next) {
  for (auto& [weight, factors] : next) {
    auto& known = state_of(weight).factors();
    for (std::size_t run = 0; run < std::min(factors.size(), known.size()); ++run) {
      stay_in_place(factors[run], known[run]);
    }
    known = std::move(factors);
  }
}

void FactoredOptimizer::prepare_buffers() {
  for (const auto index : trained()) {
    if (settings_of(index).momentum == 0.0) continue;
    auto& buffer = state_of(index).momentum_buffer();
    buffer = state_laid_out_as(parameter(index).tensor.detach(), buffer);
  }
}

/// Launches something only where they have changed.
void FactoredOptimizer::set_rates() {
  for (const auto index : trained()) {
    const auto& tensor = parameter(index).tensor;
    auto& rate = internals_->rates[Internals::place_of(group_of(index), tensor)];
    const auto lr = settings_of(index).lr;
    if (!rate.on_device.defined()) {
      rate.on_device = torch::full({}, lr, torch::dtype(torch::kFloat64).device(tensor.device()));
    } else if (rate.sent != lr) {
      rate.on_device.fill_(lr);
    }
    rate.sent = lr;
  }
}

std::vector<const void*> FactoredOptimizer::Internals::memory_of_step(
    const FactoredOptimizer& optimizer) {
  std::vector<const void*> memory;
  const auto add = [&memory](const torch::Tensor& tensor) { memory.push_back(memory_of(tensor)); };
  for (const auto index : optimizer.trained()) {
    const auto& tensor = optimizer.parameter(index).tensor;
    add(tensor);
    add(optimizer.internals_->rates.at(place_of(optimizer.group_of(index), tensor)).on_device);
    const auto* state = optimizer.find_state(index);
    if (state == nullptr) continue;
    add(state->momentum_buffer());
    for (const auto& run : state->factors()) {
      visit_refreshed(run, [&](const char* /*name*/, const torch::Tensor& tensor) { add(tensor); });
    }
  }
  return memory;
}

/// v of every weight with factors and of the biases that are a column of one.
std::map<std::size_t, torch::Tensor> FactoredOptimizer::preconditioned_gradients() const {
  std::map<std::size_t, torch::Tensor> result;
  for (const auto weight : trained()) {
    if (find_factors(weight) == nullptr) continue;
    const auto& factors = *find_factors(weight);
    const auto& tensor = parameter(weight).tensor;
    const auto n = tensor.numel() / tensor.size(0);
    const auto state_dtype = sum_dtype(tensor);
    const auto bias = internals_->joint_biases[weight];
    const bool with_bias = bias && is_trained(*bias);
    auto g = gradient_of(tensor).to(state_dtype).view({tensor.size(0), n});
    if (with_bias || most_columns(factors) > n) {
      const auto column = with_bias
                              ? gradient_of(parameter(*bias).tensor).to(state_dtype).view({-1, 1})
                              : torch::zeros({tensor.size(0), 1}, g.options());
      g = torch::cat({g, column}, 1);  // (rows, n + 1)
    }
    auto v = g;  // where there are no factors
    for (const auto& run : factors) {
      const auto groups = run.a.size(0);
      const auto rows = run.end - run.begin;
      const auto columns = run.a.size(-1);
      const auto part = g.narrow(0, run.begin, rows).narrow(1, 0, columns);
      const auto of_run = precondition(part.reshape({groups, rows / groups, columns}), run, weight)
                              .reshape({rows, columns});
      if (of_run.sizes() == g.sizes()) {
        v = of_run;
      } else {
        if (v.is_same(g)) v = g.clone();
        v.narrow(0, run.begin, rows).narrow(1, 0, columns).copy_(of_run);
      }
    }
    result[weight] = v.narrow(1, 0, n).reshape(tensor.sizes());
    if (with_bias) result[*bias] = v.select(1, n).reshape(parameter(*bias).tensor.sizes());
  }
  return result;
}

/// Σ η² v·g
torch::Tensor FactoredOptimizer::kl_divergence(
    const std::map<std::size_t, torch::Tensor>& preconditioned) const {
  std::map<Internals::Place, std::vector<torch::Tensor>> products;
  for (const auto& [index, v] : preconditioned) {
    const auto& tensor = parameter(index).tensor;
    const auto place = Internals::place_of(group_of(index), tensor);
    products[place].push_back((v * tensor.grad()).sum());
  }
  torch::Tensor divergence;
  for (const auto& [place, terms] : products) {
    const auto rate = internals_->rates.at(place).on_device;
    const auto part = torch::stack(terms).to(torch::kFloat64).sum() * rate.square();
    divergence = divergence.defined() ? divergence + part.to(divergence.device()) : part;
  }
  return divergence;
}

/// ν v in the place of v, where the options limit it.
void FactoredOptimizer::clip(std::map<std::size_t, torch::Tensor>& preconditioned) const {
  const auto is_limited = [this](const auto& each) {
    return std::isfinite(settings_of(each.first).kl_clip);
  };
  if (std::none_of(preconditioned.begin(), preconditioned.end(), is_limited)) return;
  const auto divergence = kl_divergence(preconditioned);
  std::map<double, torch::Tensor> factors;  // ν of each κ
  for (auto& [index, v] : preconditioned) {
    const auto kl_clip = settings_of(index).kl_clip;
    if (!std::isfinite(kl_clip)) continue;
    auto& nu = factors[kl_clip];
    if (!nu.defined()) nu = (kl_clip / divergence.clamp_min(kl_clip)).sqrt();  // 1 up to κ
    v = v * nu.to(v.options());
  }
}

/// Moves all parameters of a group at once, which on a GPU saves launches.
void FactoredOptimizer::move_parameters(
    const std::map<std::size_t, torch::Tensor>& preconditioned) const {
  struct Update {
    FactorSettings settings;
    torch::Tensor rate;  // η, in the precision of sums
    std::vector<torch::Tensor> theta;
    std::vector<torch::Tensor> old;  // θ, in the precision of sums
    std::vector<torch::Tensor> v;
    std::vector<torch::Tensor> buffers;
  };
  std::map<std::pair<Internals::Place, torch::ScalarType>, Update> groups;
  for (const auto index : trained()) {
    const auto& tensor = parameter(index).tensor;
    const auto place = Internals::place_of(group_of(index), tensor);
    auto& group = groups[{place, sum_dtype(tensor)}];
    group.settings = settings_of(index);
    if (!group.rate.defined()) {
      group.rate = internals_->rates.at(place).on_device.to(sum_dtype(tensor));
    }
    const auto theta = tensor.detach();
    group.theta.push_back(theta);
    group.old.push_back(theta.to(sum_dtype(tensor)));
    const auto found = preconditioned.find(index);
    group.v.push_back(laid_out_as(
        theta, found == preconditioned.end() ? tensor.grad() : found->second, sum_dtype(tensor)));
    if (group.settings.momentum != 0.0) {
      group.buffers.push_back(find_state(index)->momentum_buffer());
    }
  }
  for (auto& [key, group] : groups) {
    const auto& settings = group.settings;
    auto d = at::_foreach_add(group.v, group.old, settings.weight_decay);
    if (settings.momentum != 0.0) {
      at::_foreach_mul_(group.buffers, settings.momentum);
      at::_foreach_add_(group.buffers, d);
      d = group.buffers;
    }
    for (std::size_t i = 0; i < group.theta.size(); ++i) {
      group.old[i].addcmul_(d[i], group.rate, -1.0);
      if (!group.old[i].is_same(group.theta[i])) group.theta[i].copy_(group.old[i]);
    }
  }
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
  const auto is_hidden = [this](std::size_t weight) {
    return internals_->listener->is_hidden(weight);
  };
  if (find_factors(index) != nullptr && !is_hidden(index)) return "weight of an observed layer";
  for (const auto weight : managed()) {
    const bool scaled = find_factors(weight) != nullptr &&
                        parameter(weight).tensor.requires_grad() && !is_hidden(weight);
    if (scaled && internals_->joint_biases[weight] == index) return "bias of an observed layer";
  }
  return {};
}

std::string FactoredOptimizer::why_not_observed(std::size_t index) const {
  const auto size = internals_->listener->excessive_size(index);
  if (size != 0) {
    return "a factor would have " + std::to_string(size) + " rows, more than max_factor_size " +
           std::to_string(settings_of(index).max_factor_size);
  }
  if (internals_->listener->is_hidden(index)) {
    return "TorchScript differentiates its optimised graph by itself: output gradients are not "
           "seen";
  }
  for (const auto weight : managed()) {
    const auto& biases = parameter(weight).biases;
    if (std::find(biases.begin(), biases.end(), index) == biases.end()) continue;
    if (!parameter(weight).tensor.requires_grad()) return "bias of a layer whose weight is frozen";
    if (internals_->listener->excessive_size(weight) != 0) {
      return "bias of a layer with a factor larger than max_factor_size";
    }
    if (internals_->listener->is_hidden(weight)) {
      return "bias of a layer whose output gradients TorchScript does not show";
    }
  }
  return {};
}

}  // namespace adaact
