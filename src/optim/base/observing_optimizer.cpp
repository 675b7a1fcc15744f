#include <adaact/optim/observing_optimizer.h>

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <utility>

#include "optim/base/step_parts.h"
#include "ranks/shared_sums.h"

namespace adaact {
namespace {

/// Not so where it is computed of other parameters, as by Python's weight_norm.
bool has_weight(const LayerMap& model, const Layer& layer) {
  return std::any_of(layer.parameters.begin(), layer.parameters.end(), [&](std::size_t parameter) {
    return model.parameters()[parameter].is_layer_weight;
  });
}

std::string why_never_seen(const LayerMap& model, const NamedParameter& parameter) {
  if (!parameter.tensor.requires_grad()) return "frozen: it takes no gradient";
  if (parameter.is_layer_weight) return "its layer has not been used in training yet";
  const auto& layer = model.layers()[parameter.layer];
  switch (layer.kind) {
    case LayerKind::Normalization:
      return "parameter of a normalisation";
    case LayerKind::Embedding:
      return "embedding: its input is an index";
    case LayerKind::TransposedConvolution:
      return "transposed convolution";
    case LayerKind::Recurrent:
      return "recurrent cell";
    case LayerKind::Linear:
    case LayerKind::Convolution:
    case LayerKind::PackedProjection:
      if (parameter.tensor.dim() == 1 && has_weight(model, layer)) {
        return "bias of a layer that has not been used in training yet";
      }
      if (layer.kind == LayerKind::PackedProjection) {
        return "attention parameter that is no layer's weight";
      }
      break;
    case LayerKind::Other:
      break;
  }
  return "not seen as a layer's weight or bias";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const std::vector<ParameterCoverage>& coverage) {
  std::size_t width = 0;
  for (const auto& parameter : coverage) width = std::max(width, parameter.name.size());
  for (const auto& parameter : coverage) {
    out << std::left << std::setw(static_cast<int>(width)) << parameter.name << "  "
        << (parameter.observed ? "observed      " : "not observed  ") << parameter.reason << '\n';
  }
  return out;
}

void SharesStatistics::share_statistics(const std::shared_ptr<Communicator>& ranks,
                                        ShareFactors factors) {
  TORCH_CHECK(ranks != nullptr, "adaact: share_statistics() was given no communicator");
  share_with(ranks, factors);
}

void share_statistics(torch::optim::Optimizer& optimizer,
                      const std::shared_ptr<Communicator>& ranks, ShareFactors factors) {
  if (auto* shares = dynamic_cast<SharesStatistics*>(&optimizer)) {
    shares->share_statistics(ranks, factors);
  } else if (auto* parts = StepParts::of(optimizer)) {
    // It has gradients of all ranks to wait for all the same.
    parts->set_wait_for_stream([ranks] { ranks->wait_for_stream(); });
  }
}

ObservingOptimizer::ObservingOptimizer(ObservingOptimizer&&) noexcept = default;
ObservingOptimizer::~ObservingOptimizer() = default;

void ObservingOptimizer::start_observing(std::shared_ptr<Listener> listener) {
  observer_ = std::make_unique<Observer>(model(), std::move(listener));
}

void ObservingOptimizer::share_with(const std::shared_ptr<Communicator>& ranks,
                                    ShareFactors factors) {
  const bool is_alone = ranks->is_alone();
  shared_sums_ = is_alone ? nullptr : std::make_unique<SharedSums>(ranks);
  shared_factors_ =
      is_alone || factors == ShareFactors::No ? nullptr : std::make_unique<SharedSums>(ranks);
  step_parts().set_wait_for_stream([ranks] { ranks->wait_for_stream(); });
}

ObservationPause ObservingOptimizer::pause_observation() const { return observer_->pause(); }

void ObservingOptimizer::discard_observations() {
  clear_observations();
  observer_->discard_failure();
}

void ObservingOptimizer::observe(const torch::Tensor& weight, const torch::Tensor& input,
                                 const Geometry& geometry, const torch::Tensor& output) {
  TORCH_CHECK(output.defined() || !needs_output(), label(),
              ": observe() was given no output; its gradient is part of what is observed");
  observer_->observe(weight, input, geometry, output);
}

bool ObservingOptimizer::fits(std::size_t bias, std::size_t weight) const {
  const auto& tensor = parameter(weight).tensor;
  return tensor.dim() > 0 && parameter(bias).tensor.numel() == tensor.size(0);
}

bool ObservingOptimizer::has_fitting_bias(std::size_t weight) const {
  const auto& biases = parameter(weight).biases;
  return std::any_of(biases.begin(), biases.end(),
                     [&](std::size_t bias) { return fits(bias, weight); });
}

std::optional<std::size_t> ObservingOptimizer::joint_bias(std::size_t weight) const {
  for (const auto bias : parameter(weight).biases) {
    if (is_managed(bias) && parameter(bias).tensor.requires_grad() && fits(bias, weight)) {
      return bias;
    }
  }
  return std::nullopt;
}

void ObservingOptimizer::settle(std::int64_t steps) {
  if (steps > 0 && !std::exchange(first_step_done_, true)) warn_about_unseen_layers();
}

void ObservingOptimizer::on_state_loaded() {
  first_step_done_ = true;
  discard_observations();
}

std::vector<ParameterCoverage> ObservingOptimizer::coverage() const {
  std::vector<ParameterCoverage> all;
  for (std::size_t index = 0; index < model().parameters().size(); ++index) {
    const auto& known = parameter(index);
    if (!is_managed(index)) {
      all.push_back({known.name, false, "in no parameter group: it is not updated"});
    } else if (auto why = why_observed(index); !why.empty() && known.tensor.requires_grad()) {
      all.push_back({known.name, true, std::move(why)});
    } else {
      auto why_not = why_not_observed(index);
      if (why_not.empty() && observer_->has_refused_input_of(index)) {
        why_not = "what it is multiplied by is made of parameters alone";
      }
      if (why_not.empty() && observer_->is_multiplied_by_rows(index)) {
        why_not =
            "its rows meet the inputs, as in matmul(x, weight); of a layer's weight the columns do";
      }
      all.push_back(
          {known.name, false, why_not.empty() ? why_never_seen(model(), known) : why_not});
    }
  }
  return all;
}

void ObservingOptimizer::warn_about_unseen_layers() const {
  std::string names;
  for (const auto index : managed()) {
    const auto& known = parameter(index);
    const bool is_weight = known.is_layer_weight || observer_->is_multiplied_by_rows(index);
    const bool eligible = is_weight && known.tensor.requires_grad();
    if (eligible && why_observed(index).empty() && why_not_observed(index).empty()) {
      names += (names.empty() ? "" : ", ") + known.name;
    }
  }
  if (names.empty()) return;
  TORCH_WARN(label(), ": the first step saw no use of the layers with these weights: ", names,
             ". Until they are used while gradients are recorded they are trained by ",
             rule_for_unobserved(), "; coverage() tells more.");
}

}  // namespace adaact
