#include "train/probes/activation_probe.h"

#include <map>

#include <torch/torch.h>

namespace adaact {

SecondMoments MomentReadings::read() const {
  SecondMoments moments;
  if (layers.empty()) return moments;
  const auto values = means.cpu();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    moments.emplace_back(layers[i], values[static_cast<std::int64_t>(i)].item<double>());
  }
  return moments;
}

ActivationProbe::ActivationProbe(torch::nn::Module& model)
    : model_(model),
      accumulator_(std::make_shared<MomentAccumulator>(
          model_,
          [](const LayerUse& use, const torch::Tensor& input) {
            return second_moment(input, use.geometry);
          },
          [parameters = model_.parameters()](const LayerUse& use, const torch::Tensor& input) {
            return input.numel() > 0 && parameters[use.weight].tensor.requires_grad();
          })),
      observer_(model_, accumulator_) {}

MomentReadings ActivationProbe::take_on_device() {
  const torch::NoGradGuard no_grad;
  struct Total {
    torch::Tensor sum;
    double count = 0.0;
  };
  std::map<std::size_t, Total> totals;  // by the place of the weight in the model
  for (const auto& pending : accumulator_->take()) {
    auto& total = totals[pending.weight];
    const auto sum = pending.moment.sum.sum().to(torch::kFloat64);
    total.sum = total.sum.defined() ? total.sum + sum : sum;
    total.count += static_cast<double>(pending.moment.count * pending.moment.sum.numel());
  }
  MomentReadings readings;
  std::vector<torch::Tensor> means;
  for (const auto& [weight, total] : totals) {
    readings.layers.push_back(model_.parameters()[weight].name);
    means.push_back(total.sum / total.count);
  }
  if (!means.empty()) readings.means = torch::stack(means);
  return readings;
}

}  // namespace adaact
