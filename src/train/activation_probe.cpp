#include "train/activation_probe.h"

#include <map>

namespace adaact {

ActivationProbe::ActivationProbe(torch::nn::Module& model)
    : model_(model),
      accumulator_(
          std::make_shared<MomentAccumulator>([](const LayerUse& use, const torch::Tensor& input) {
            return second_moment(input, use.geometry);
          })),
      observer_(model_, accumulator_) {}

SecondMoments ActivationProbe::take() {
  struct Total {
    double sum = 0.0;
    double count = 0.0;
  };
  std::map<std::size_t, Total> totals;  // by the place of the weight in the model
  for (const auto& pending : accumulator_->take()) {
    auto& total = totals[pending.weight];
    total.sum += pending.moment.sum.sum().item<double>();
    total.count += static_cast<double>(pending.moment.count * pending.moment.sum.numel());
  }
  SecondMoments moments;
  for (const auto& [weight, total] : totals) {
    moments.emplace_back(model_.parameters()[weight].name, total.sum / total.count);
  }
  return moments;
}

}  // namespace adaact
