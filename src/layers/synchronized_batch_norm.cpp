#include "layers/synchronized_batch_norm.h"

#include <utility>
#include <vector>

#include <torch/custom_class.h>
#include <torch/torch.h>

#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const std::vector<std::int64_t> kAllButChannels{0, 2, 3};

torch::Tensor of_channel(const torch::Tensor& values) { return values.view({1, -1, 1, 1}); }

/// Images and positions of a channel on all ranks, with their mean and variance, (C) float64.
struct ChannelStatistics {
  torch::Tensor count;  // ()
  torch::Tensor mean;
  torch::Tensor variance;
};

/// The sums are in float64, so that the difference of two large numbers among them costs no digit of the result.
ChannelStatistics statistics_of_all_ranks(const torch::Tensor& x, Communicator& ranks) {
  const auto channels = x.size(1);
  const auto sums = torch::zeros({2 * channels + 1}, x.options().dtype(torch::kFloat64));
  if (x.numel() > 0) {
    const auto count = static_cast<double>(x.numel() / channels);
    const auto [own_variance, own_mean] =
        torch::var_mean(x.to(sum_dtype(x)), kAllButChannels, /*unbiased=*/false);
    const auto mean = own_mean.to(torch::kFloat64);
    sums.narrow(0, 0, 1).fill_(count);
    sums.narrow(0, 1, channels).copy_(mean * count);
    sums.narrow(0, 1 + channels, channels)
        .copy_((own_variance.to(torch::kFloat64) + mean.square()) * count);
  }
  ranks.sum({sums});
  const auto count = sums[0];
  const auto mean = sums.narrow(0, 1, channels) / count;
  const auto variance = sums.narrow(0, 1 + channels, channels) / count - mean.square();
  return {count, mean, variance.clamp_min(0.0)};
}

struct HeldRanks : torch::CustomClassHolder {
  explicit HeldRanks(std::shared_ptr<Communicator> all) : ranks(std::move(all)) {}
  std::shared_ptr<Communicator> ranks;
};

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mean, const torch::Tensor& inverse_deviation,
                               const torch::Tensor& count,
                               const std::shared_ptr<Communicator>& ranks) {
    context->save_for_backward({x, weight, mean, inverse_deviation, count});
    context->saved_data["ranks"] = c10::IValue::make_capsule(c10::make_intrusive<HeldRanks>(ranks));
    const auto scale = inverse_deviation * weight;
    const auto wide = x.to(weight.scalar_type());
    return ((wide - of_channel(mean)) * of_channel(scale) + of_channel(bias)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "adaact: gradients of a batch normalisation over all ranks cannot be "
                "differentiated once more");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse_deviation = saved[3],
               &count = saved[4];
    const auto ranks =
        c10::static_intrusive_pointer_cast<HeldRanks>(context->saved_data["ranks"].toCapsule())
            ->ranks;
    const auto dz = gradients[0].to(weight.scalar_type());
    const auto normalised =
        (x.to(weight.scalar_type()) - of_channel(mean)) * of_channel(inverse_deviation);
    // The gradients of γ and β are this rank's share: whoever adds up gradients adds up these, too.
    const auto dbias = dz.sum(kAllButChannels);
    const auto dweight = (dz * normalised).sum(kAllButChannels);
    const auto sums = torch::stack({dbias, dweight}).to(torch::kFloat64);
    ranks->sum({sums});
    const auto means = (sums / count).to(weight.scalar_type());
    const auto dx = of_channel(weight * inverse_deviation) *
                    (dz - of_channel(means[0]) - normalised * of_channel(means[1]));
    return {dx.to(x.scalar_type()), dweight, dbias, {}, {}, {}, {}};
  }
};

void move_running_statistics(torch::nn::BatchNorm2d& norm, const ChannelStatistics& statistics) {
  if (!norm->options.track_running_stats()) return;
  const torch::NoGradGuard no_grad;
  norm->num_batches_tracked += 1;
  const auto momentum = norm->options.momentum();
  const auto share = momentum ? torch::full_like(statistics.count, *momentum)
                              : norm->num_batches_tracked.to(torch::kFloat64).reciprocal();
  const auto unbiased =
      statistics.variance * (statistics.count / (statistics.count - 1.0).clamp_min(1.0));
  const auto move = [&share](const torch::Tensor& average, const torch::Tensor& now) {
    const auto wide = average.to(torch::kFloat64);
    average.copy_(wide + share * (now - wide));
  };
  move(norm->running_mean, statistics.mean);
  move(norm->running_var, unbiased);
}

}  // namespace

torch::Tensor synchronized_batch_norm(torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                                      const std::shared_ptr<Communicator>& ranks) {
  TORCH_CHECK(x.dim() == 4 && x.size(1) == norm->options.num_features(),
              "adaact: a batch normalisation of ", norm->options.num_features(),
              " channels was given ", x.sizes(), ", expected (N, ", norm->options.num_features(),
              ", H, W)");
  ChannelStatistics statistics;
  {
    const torch::NoGradGuard no_grad;
    statistics = statistics_of_all_ranks(x.detach(), *ranks);
    move_running_statistics(norm, statistics);
  }
  const auto dtype = sum_dtype(x);
  const auto mean = statistics.mean.to(dtype);
  const auto inverse_deviation = (statistics.variance + norm->options.eps()).rsqrt().to(dtype);
  const auto options = mean.options();
  const bool affine = norm->options.affine();
  const auto weight = affine ? norm->weight : torch::ones({x.size(1)}, options);
  const auto bias = affine ? norm->bias : torch::zeros({x.size(1)}, options);
  return Normalise::apply(x, weight, bias, mean, inverse_deviation, statistics.count, ranks);
}

}  // namespace adaact
