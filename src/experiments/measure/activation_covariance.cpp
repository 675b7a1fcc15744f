#include "experiments/measure/activation_covariance.h"

#include <map>
#include <memory>

#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>
#include <torch/torch.h>

#include "moments/accumulator.h"
#include "train/step/evaluation_mode.h"

namespace adaact {
namespace {

/// The layers of a model by their names alone, without the modules: a layer of unknown mode is
/// observed in evaluation too.
LayerMap layers_without_modules(const Model& model) {
  NamedTensors parameters;
  for (const auto& parameter : model.named_parameters()) {
    parameters.emplace_back(parameter.key(), parameter.value());
  }
  return parameters;
}

/// Σ ã ãᵀ of a layer's input. The last of ã is always 1: its products with the others are their
/// sums.
Moment measure(const LayerUse& use, const torch::Tensor& input) {
  if (!use.input_is_intermediate) return {};  // the images
  return covariance(input, use.geometry, /*with_bias=*/true);
}

/// Both covariances of a layer from Σ ã ãᵀ (1, n+1, n+1).
ActivationCovariance from_sum(const std::string& layer, const Moment& total) {
  TORCH_CHECK(total.sum.size(0) == 1, "the layer ", layer, " has ", total.sum.size(0),
              " groups of inputs, expected one");
  const auto extended = total.mean()[0];
  const auto n = extended.size(0) - 1;
  const auto uncentred = extended.narrow(0, 0, n).narrow(1, 0, n).contiguous();
  const auto mean = extended[n].narrow(0, 0, n);
  return {layer, uncentred, uncentred - torch::outer(mean, mean)};
}

}  // namespace

std::vector<ActivationCovariance> activation_covariances(Model& model, Loader& images,
                                                         torch::Device device) {
  const auto map = layers_without_modules(model);
  const auto accumulator = std::make_shared<MomentAccumulator>(map, measure, nullptr);
  Observer observer(map, accumulator);
  const EvaluationMode evaluation(model);
  const torch::AutoGradMode gradients(true);  // nothing is observed without

  std::map<std::size_t, Moment> totals;  // by the place of the weight in the model
  images.start(/*epoch=*/0);
  while (const auto batch = images.next()) {
    model.forward(batch->images.to(device));
    observer.rethrow_failure();
    for (const auto& pending : accumulator->take()) {
      if (!pending.moment.sum.defined()) continue;
      // In float64: there are thousands of batches' rows to add.
      const auto sum = pending.moment.sum.cpu().to(torch::kFloat64);
      auto& total = totals[pending.weight];
      total.sum = total.sum.defined() ? total.sum + sum : sum;
      total.count += pending.moment.count;
    }
  }

  std::vector<ActivationCovariance> covariances;
  for (const auto& [weight, total] : totals) {
    const auto& layer = map.layers()[map.parameters()[weight].layer];
    covariances.push_back(from_sum(layer.name, total));
  }
  return covariances;
}

DiagonalShare diagonal_share(const torch::Tensor& matrix) {
  const auto n = matrix.size(0);
  TORCH_CHECK(matrix.dim() == 2 && matrix.size(1) == n && n >= 2, "the matrix is ", matrix.sizes(),
              ", expected a square one of 2 rows or more");
  const auto entries = matrix.to(torch::kFloat64).abs();
  const auto on = entries.diagonal();
  const auto pairs = torch::triu_indices(n, n, /*offset=*/1);  // each i < j once: it is symmetric
  const auto off = entries.index({pairs[0], pairs[1]});
  const auto scale = (on.index_select(0, pairs[0]) * on.index_select(0, pairs[1])).sqrt();

  DiagonalShare share;
  share.size = n;
  const auto mass = entries.sum().item<double>();
  share.mass = mass > 0.0 ? on.sum().item<double>() / mass : 0.0;
  share.median_on = on.median().item<double>();
  share.median_off = off.median().item<double>();
  share.related_pairs = (off > kRelated * scale).to(torch::kFloat64).mean().item<double>();
  return share;
}

}  // namespace adaact
