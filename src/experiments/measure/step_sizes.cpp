#include "experiments/measure/step_sizes.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <adaact/data/loader.h>
#include <adaact/optim/adaact.h>
#include <torch/torch.h>

#include "report/format.h"
#include "train/run/run_parts.h"

namespace adaact {
namespace {

/// A fresh model: with the same weights whenever the configuration is the same.
std::shared_ptr<Model> initial_model(const RunConfig& config, const Dataset& data) {
  torch::manual_seed(config.seed);
  auto model = build_model(config, data);
  model->to(torch::Device(config.device));
  return model;
}

/// How long the step of each weight is, but for η: one number for every input of every layer.
struct InverseRoots {
  torch::Tensor values;  // 1/(√v̂ + ε) (inputs) float64
  torch::Tensor counts;  // weights that read the input; 0 where it is idle
};

/// One training, step by step.
class Training {
 public:
  Training(const RunConfig& config, std::shared_ptr<const Dataset> data, std::int64_t workers)
      : device_(config.device),
        model_(initial_model(config, *data)),
        options_(AdaActOptions::from_json(config.optimizer_options)),
        optimizer_(*model_, options_),
        loader_(std::move(data), loader_options(config, workers, Split::Train)) {}

  /// The options that its optimizer was made with.
  const AdaActOptions& options() const { return options_; }
  std::int64_t steps_per_epoch() const { return loader_.batches_per_epoch(); }

  void start(std::int64_t epoch) { loader_.start(epoch); }

  /// Takes a step. At the end of the epoch it takes none and returns false.
  bool step(double learning_rate) {
    const auto batch = loader_.next();
    if (!batch) return false;
    optimizer_.param_groups()[0].options().set_lr(learning_rate);
    optimizer_.zero_grad();
    const auto logits = model_->forward(batch->images.to(device_));
    torch::cross_entropy_loss(logits, batch->labels.to(device_)).backward();
    optimizer_.step();
    return true;
  }

  /// 1/(√v̂ + ε) as the last step had it.
  InverseRoots inverse_roots() const {
    std::vector<torch::Tensor> values;
    std::vector<torch::Tensor> counts;
    for (const auto& parameter : model_->parameters()) {
      const auto v_hat = optimizer_.second_moment(parameter);
      if (!v_hat.defined()) continue;  // a bias
      const auto inputs = v_hat.flatten().to(torch::kFloat64);
      const auto readers = parameter.numel() / inputs.numel();
      values.push_back(1.0 / (inputs.sqrt() + options_.eps()));
      counts.push_back((inputs >= kIdle).to(torch::kFloat64) * readers);
    }
    return {torch::cat(values), torch::cat(counts)};
  }

  /// θ
  torch::Tensor parameters() const {
    std::vector<torch::Tensor> flat;
    for (const auto& parameter : model_->parameters()) flat.push_back(parameter.detach().flatten());
    return torch::cat(flat);
  }

 private:
  torch::Device device_;
  std::shared_ptr<Model> model_;
  AdaActOptions options_;
  AdaAct optimizer_;
  Loader loader_;
};

/// Two steps that are compared, input by input.
struct ComparedInputs {
  torch::Tensor counts;       // 0 where the input is idle in both
  torch::Tensor awake;        // 0 where it is idle in one of them
  torch::Tensor idle;         // how many inputs are idle in both
  torch::Tensor idle_in_one;  // how many are idle in one of them only
};

ComparedInputs compared_inputs(const InverseRoots& one, const InverseRoots& other) {
  const auto counts = torch::maximum(one.counts, other.counts);
  const auto one_is_idle = one.counts == 0;
  return {counts, torch::minimum(one.counts, other.counts), (counts == 0).sum().to(torch::kFloat64),
          one_is_idle.logical_xor(other.counts == 0).sum().to(torch::kFloat64)};
}

/// Reads numbers in one transfer from a GPU instead of many.
template <std::size_t N>
std::array<double, N> read(const torch::Tensor (&scalars)[N]) {
  const torch::Tensor values = torch::stack(scalars).cpu();
  std::array<double, N> numbers{};
  std::copy_n(values.data_ptr<double>(), N, numbers.begin());
  return numbers;
}

std::string epoch_of(std::int64_t epoch, const RunConfig& config) {
  return "epoch " + std::to_string(epoch + 1) + " of " + std::to_string(config.epochs);
}

}  // namespace

StepSizeChanges step_size_changes(const RunConfig& config, std::shared_ptr<const Dataset> data,
                                  std::int64_t workers, const Progress& progress) {
  set_up_libtorch(config);
  Training training(config, std::move(data), workers);
  const auto schedule = build_schedule(config, training.steps_per_epoch());

  StepSizeChanges changes;
  InverseRoots before;
  double rate_before = 0.0;
  std::int64_t steps = 0;
  for (std::int64_t epoch = 0; epoch < config.epochs; ++epoch) {
    training.start(epoch);
    for (;; ++steps) {
      const double rate = training.options().lr() * schedule(steps);  // η_t
      if (!training.step(rate)) break;
      const auto now = training.inverse_roots();
      if (steps > 0) {
        const auto inputs = compared_inputs(before, now);
        const auto& counts = inputs.counts;
        const auto weights = counts.sum();
        const auto steps_now = rate * now.values;
        const auto changes_now = steps_now - rate_before * before.values;
        const auto& awake = inputs.awake;
        const auto awake_weights = awake.sum();
        const auto root_changes = (now.values - before.values).abs();
        const auto [change, growing, idle, idle_in_one, awake_change, awake_step,
                    awake_root_change] =
            read({(counts * changes_now.abs()).sum() / weights,
                  (counts * (changes_now > 0)).sum() / weights, inputs.idle, inputs.idle_in_one,
                  (awake * changes_now.abs()).sum() / awake_weights,
                  (awake * steps_now).sum() / awake_weights,
                  (awake * root_changes).sum() / (awake * now.values).sum()});
        changes.change.add(change);
        changes.growing.add(growing);
        changes.idle.add(idle);
        changes.idle_in_one.add(idle_in_one);
        changes.awake_change.add(awake_change);
        changes.awake_step.add(awake_step);
        changes.awake_root_change.add(awake_root_change);
      }
      before = now;
      rate_before = rate;
    }
    for (auto* record : {&changes.change, &changes.growing, &changes.idle, &changes.idle_in_one,
                         &changes.awake_change, &changes.awake_step, &changes.awake_root_change}) {
      record->end_epoch();
    }
    progress(epoch_of(epoch, config) + ": η " + rounded(rate_before));
  }
  return changes;
}

NeighbourDifferences neighbour_differences(const RunConfig& config,
                                           std::shared_ptr<const Dataset> data,
                                           std::shared_ptr<const Dataset> neighbour,
                                           std::int64_t workers, const Progress& progress) {
  set_up_libtorch(config);
  Training one(config, std::move(data), workers);
  Training other(config, std::move(neighbour), workers);
  const double rate = one.options().lr();
  const double beta1 = std::get<0>(one.options().betas());

  NeighbourDifferences differences;
  double term_b = 0.0;
  double delta = 0.0;  // Δ_1: the same weights
  for (std::int64_t epoch = 0; epoch < config.epochs; ++epoch) {
    one.start(epoch);
    other.start(epoch);
    while (one.step(rate) && other.step(rate)) {
      const auto ours = one.inverse_roots();
      const auto theirs = other.inverse_roots();
      const auto inputs = compared_inputs(ours, theirs);
      const auto& counts = inputs.counts;
      const auto& awake = inputs.awake;
      const auto squared_differences = (ours.values - theirs.values).square();
      const auto squares = ours.values.square();
      const auto theta = one.parameters().to(torch::kFloat64);
      const auto [term_a, root_norm, awake_term_a, awake_root_norm, next_delta, norm, idle,
                  idle_in_one] =
          read({(counts * squared_differences).sum().sqrt(), (counts * squares).sum().sqrt(),
                (awake * squared_differences).sum().sqrt(), (awake * squares).sum().sqrt(),
                (theta - other.parameters()).norm(), theta.norm(), inputs.idle,
                inputs.idle_in_one});
      term_b = beta1 * term_b + (1.0 - beta1) * delta;  // with Δ_t
      delta = next_delta;                               // Δ_{t+1}
      differences.term_a.add(term_a);
      differences.root_norm.add(root_norm);
      differences.awake_term_a.add(awake_term_a);
      differences.awake_root_norm.add(awake_root_norm);
      differences.term_b.add(term_b);
      differences.delta.add(delta);
      differences.norm.add(norm);
      differences.idle.add(idle);
      differences.idle_in_one.add(idle_in_one);
    }
    for (auto* record : {&differences.term_a, &differences.root_norm, &differences.awake_term_a,
                         &differences.awake_root_norm, &differences.term_b, &differences.delta,
                         &differences.norm, &differences.idle, &differences.idle_in_one}) {
      record->end_epoch();
    }
    progress(epoch_of(epoch, config) + ": Δ " + rounded(delta));
  }
  return differences;
}

}  // namespace adaact
