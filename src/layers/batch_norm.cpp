#include "layers/batch_norm.h"

#include <limits>

#include <torch/torch.h>

#include "kernels/sum_dtype.h"
#include "layers/batch_norm_cuda.h"
#include "layers/layout.h"
#include "layers/plain_layers.h"
#include "layers/shared_batch_statistics.h"
#include "layers/synchronized_batch_norm.h"
#include "moments/offered_squares.h"

namespace adaact {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = c10::optional<torch::Tensor>;

struct Settings {
  RunningStatistics running;
  double eps = 1e-5;
  bool relu = false;
  bool goes_around = false;  // the second output is x, not the first once more
  bool offers_squares = false;
};

/// Whether nobody else has this gradient, or its memory. Autograd tells by the same whether it may keep one as it is.
bool is_ours_alone(const torch::Tensor& gradient) {
  return gradient.defined() && gradient.use_count() == 1 && gradient.storage().use_count() == 1;
}

/// A gradient as the kernels read it.
torch::Tensor laid_out_as(const torch::Tensor& x, const torch::Tensor& gradient) {
  if (!gradient.defined()) return gradient;
  const bool channels_last = is_laid_out_by_channels(x, /*channels_last=*/true);
  const auto same = gradient.to(x.scalar_type());
  if (is_laid_out_by_channels(same, channels_last)) return same;
  return same.contiguous(channels_last ? torch::MemoryFormat::ChannelsLast
                                       : torch::MemoryFormat::Contiguous);
}

/// The gradients as operators that autograd can differentiate once more. Not by a pass of autograd's within this
/// one, which would wait for a lock that this node holds.
variable_list differentiable_gradients(const BatchNormPass& pass, double eps,
                                       const torch::Tensor& gradient, const torch::Tensor& added) {
  const std::vector<std::int64_t> all_but_channels{0, 2, 3};
  const auto mean = [&](const torch::Tensor& of) {
    return of.mean(all_but_channels, /*keepdim=*/true);
  };
  const auto of_channel = [](const torch::Tensor& of) { return of.view({1, -1, 1, 1}); };
  const auto x = pass.x.to(pass.weight.scalar_type());
  const auto apart = x - mean(x);
  const auto inverse_deviation = (mean(apart * apart) + eps).rsqrt();
  const auto normalised = apart * inverse_deviation;
  auto dz = gradient;
  if (pass.relu) {
    const auto output = pass.has_residual
                            ? pass.output
                            : normalised * of_channel(pass.weight) + of_channel(pass.bias);
    dz = dz * output.detach().gt(0).to(dz.scalar_type());
  }
  const auto scaled = dz * of_channel(pass.weight);
  auto dx = (inverse_deviation * (scaled - mean(scaled) - normalised * mean(scaled * normalised)))
                .to(pass.x.scalar_type());
  if (added.defined()) dx = dx + added;
  return {dx, pass.has_residual ? dz : torch::Tensor(), (dz * normalised).sum(all_but_channels),
          dz.sum(all_but_channels).to(pass.bias.scalar_type()), torch::Tensor()};
}

class FusedBatchNorm : public torch::autograd::Function<FusedBatchNorm> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const OptionalTensor& residual, const torch::Tensor& weight,
                               const torch::Tensor& bias, const Settings& settings) {
    const auto result = batch_norm_forward_cuda(x, residual ? *residual : torch::Tensor(), weight,
                                                bias, settings.running, settings.eps, settings.relu,
                                                settings.offers_squares);
    if (result.squares.defined()) offer_squares(result.output, result.squares);
    const bool keeps_output = settings.relu && residual;
    context->save_for_backward({x, weight, bias, result.mean, result.inverse_deviation,
                                keeps_output ? result.output : torch::Tensor()});
    context->saved_data["eps"] = settings.eps;
    context->saved_data["relu"] = settings.relu;
    context->saved_data["has_residual"] = residual.has_value();
    context->saved_data["goes_around"] = settings.goes_around;
    context->set_materialize_grads(false);
    // The second output shares the memory of what it is equal to.
    return {result.output, (settings.goes_around ? x : result.output).variable_data()};
  }

  /// The gradients by reference: a copy of the list would be one more that has them.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const bool alone[] = {is_ours_alone(gradients[0]), is_ours_alone(gradients[1])};
    const auto saved = context->get_saved_variables();
    BatchNormPass pass;
    pass.x = saved[0];
    pass.weight = saved[1];
    pass.bias = saved[2];
    pass.mean = saved[3];
    pass.inverse_deviation = saved[4];
    pass.output = saved[5];
    pass.relu = context->saved_data["relu"].toBool();
    pass.has_residual = context->saved_data["has_residual"].toBool();
    const bool goes_around = context->saved_data["goes_around"].toBool();
    auto first = laid_out_as(pass.x, gradients[0]);
    auto second = laid_out_as(pass.x, gradients[1]);
    if (goes_around && !first.defined()) return {second, {}, {}, {}, {}};
    const bool first_is_alone = alone[first.defined() ? 0 : 1];
    if (!first.defined()) std::swap(first, second);
    if (!first.defined()) return {{}, {}, {}, {}, {}};
    if (torch::GradMode::is_enabled()) {
      const auto sum = second.defined() && !goes_around ? first + second : first;
      return differentiable_gradients(pass, context->saved_data["eps"].toDouble(), sum,
                                      goes_around ? second : torch::Tensor());
    }
    const auto result = goes_around
                            ? batch_norm_backward_cuda(pass, first, {}, second, first_is_alone)
                            : batch_norm_backward_cuda(pass, first, second, {}, first_is_alone);
    return {result.x, result.residual, result.weight, result.bias, torch::Tensor()};
  }
};

bool can_be_fused(const torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                  const torch::Tensor& residual) {
  if (norm.is_empty() || SharedBatchStatistics::ranks() != nullptr) return false;
  const auto& options = norm->options;
  if (!may_be_fused(x) || !norm->is_training() || !options.affine() ||
      !options.track_running_stats() || !options.momentum() || x.dim() != 4 ||
      x.size(1) != norm->weight.numel() || !has_kernels(x.scalar_type())) {
    return false;
  }
  for (const auto& of_channels :
       {norm->weight, norm->bias, norm->running_mean, norm->running_var}) {
    if (of_channels.scalar_type() != sum_dtype(x) || !of_channels.is_contiguous() ||
        of_channels.device() != x.device()) {
      return false;
    }
  }
  const bool channels_last = is_laid_out_by_channels(x, /*channels_last=*/true);
  if (!channels_last && !is_laid_out_by_channels(x, /*channels_last=*/false)) return false;
  if (residual.defined() &&
      (residual.scalar_type() != x.scalar_type() || residual.sizes() != x.sizes() ||
       !is_laid_out_by_channels(residual, channels_last))) {
    return false;
  }
  const auto of_a_channel = x.numel() / x.size(1);
  return of_a_channel > 1 && of_a_channel <= std::numeric_limits<std::int32_t>::max() &&
         norm->num_batches_tracked.device() == x.device();
}

/// What a fused layer does besides normalising.
struct Around {
  bool relu = false;
  bool goes_around = false;
};

Forked fused(torch::nn::BatchNorm2d& norm, const torch::Tensor& x, const OptionalTensor& residual,
             const Around& around) {
  Settings settings;
  settings.running = {norm->running_mean, norm->running_var, norm->num_batches_tracked,
                      *norm->options.momentum()};
  settings.eps = norm->options.eps();
  settings.relu = around.relu;
  settings.goes_around = around.goes_around;
  settings.offers_squares = around.relu && squares_are_wanted(norm->weight);
  const auto outputs = FusedBatchNorm::apply(x, residual, norm->weight, norm->bias, settings);
  return {outputs[0], outputs[1]};
}

torch::Tensor plain(torch::nn::BatchNorm2d& norm, const torch::Tensor& x) {
  if (norm.is_empty()) return x;
  const auto& ranks = SharedBatchStatistics::ranks();
  const bool uses_batch = norm->is_training() || !norm->options.track_running_stats();
  if (ranks != nullptr && uses_batch) return synchronized_batch_norm(norm, x, ranks);
  return norm->forward(x);
}

}  // namespace

torch::Tensor batch_norm(torch::nn::BatchNorm2d& norm, const torch::Tensor& x) {
  if (!can_be_fused(norm, x, {})) return plain(norm, x);
  return fused(norm, x, {}, Around{}).onward;
}

torch::Tensor batch_norm_relu(torch::nn::BatchNorm2d& norm, const torch::Tensor& x) {
  if (!can_be_fused(norm, x, {})) return plain(norm, x).relu_();
  return fused(norm, x, {}, {/*relu=*/true, /*goes_around=*/false}).onward;
}

Forked batch_norm_add_relu(torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                           const torch::Tensor& residual) {
  if (can_be_fused(norm, x, residual)) {
    OptionalTensor added;
    if (residual.defined()) added = residual;
    return fused(norm, x, added, {/*relu=*/true, /*goes_around=*/false});
  }
  auto y = plain(norm, x);
  if (residual.defined()) y.add_(residual);
  y.relu_();
  return {y, y};
}

Forked batch_norm_relu_around(torch::nn::BatchNorm2d& norm, const torch::Tensor& x) {
  if (can_be_fused(norm, x, {})) return fused(norm, x, {}, {/*relu=*/true, /*goes_around=*/true});
  const auto y = plain(norm, x);
  return {y.is_same(x) ? y.relu() : y.relu_(), x};
}

}  // namespace adaact
