#include "optim/adaact/adaact_update.h"

#include <type_traits>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "kernels/cpu_dispatch.h"
#include "kernels/grain.h"

namespace adaact {
namespace {

template <typename Scalar, typename State>
struct UpdateRow {
  /// scale[j] = η / (bc₁ · (V̂ⱼᵖ + ε))
  static ADAACT_LOOP_BODY void run(Scalar* theta, State* m, const Scalar* g, const State* scale,
                                   std::int64_t n, State beta1, State decay) {
    for (std::int64_t j = 0; j < n; ++j) {
      m[j] = beta1 * m[j] + (State(1) - beta1) * static_cast<State>(g[j]);
      theta[j] = static_cast<Scalar>(decay * static_cast<State>(theta[j]) - scale[j] * m[j]);
    }
  }
};

template <typename Scalar, typename State>
void update_rows(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                 const torch::Tensor& scale, const AdaActScalars& step) {
  const auto n = theta.size(1);
  const auto rows_per_input = theta.size(0) / scale.size(0);
  auto* theta_data = theta.data_ptr<Scalar>();
  auto* m_data = m.data_ptr<State>();
  const auto* g_data = g.data_ptr<Scalar>();
  const auto* scale_data = scale.data_ptr<State>();
  const auto beta1 = static_cast<State>(step.beta1);
  const auto decay = static_cast<State>(1.0 - step.lr * step.weight_decay);
  at::parallel_for(0, theta.size(0), grain_for(n), [&](std::int64_t begin, std::int64_t end) {
    for (auto row = begin; row < end; ++row) {
      run_vectorized<UpdateRow<Scalar, State>>(
          theta_data + row * n, m_data + row * n, g_data + row * n,
          scale_data + row / rows_per_input * n, n, beta1, decay);
    }
  });
}

}  // namespace

torch::Tensor adaact_denominator(const torch::Tensor& v_hat, double power, double eps) {
  return (power == 0.5 ? v_hat.sqrt() : v_hat.pow(power)).add_(eps);
}

void adaact_update_reference(const torch::Tensor& theta, const torch::Tensor& m,
                             const torch::Tensor& g, const torch::Tensor& denominator,
                             const AdaActScalars& step) {
  m.mul_(step.beta1).add_(g.to(m.dtype()), 1.0 - step.beta1);  // M_t
  const auto m_hat = m / step.bias_correction1;                // M̂_t
  const auto rows_per_input = theta.size(0) / denominator.size(0);
  const auto g_hat = m_hat / denominator.repeat_interleave(rows_per_input, 0);               // Ĝ_t
  theta.copy_(theta.to(m.dtype()) * (1.0 - step.lr * step.weight_decay) - step.lr * g_hat);  // θ_t
}

void adaact_update_cpu(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                       const torch::Tensor& denominator, const AdaActScalars& step) {
  const auto scale = (step.lr / step.bias_correction1) / denominator;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, theta.scalar_type(), "adaact_update_cpu", [&] {
        using State = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
        update_rows<scalar_t, State>(theta, m, g, scale, step);
      });
}

void adaact_update(const torch::Tensor& theta, const torch::Tensor& m, const torch::Tensor& g,
                   const torch::Tensor& denominator, const AdaActScalars& step) {
  const bool fast = theta.device().is_cpu() && theta.is_contiguous() && m.is_contiguous() &&
                    g.is_contiguous() && denominator.is_contiguous() && theta.is_floating_point();
  (fast ? adaact_update_cpu : adaact_update_reference)(theta, m, g, denominator, step);
}

void plain_gradient_update(const std::vector<torch::Tensor>& theta,
                           const std::vector<torch::Tensor>& g, const AdaActScalars& step) {
  at::_foreach_mul_(theta, 1.0 - step.lr * step.weight_decay);
  at::_foreach_add_(theta, g, -step.lr);
}

}  // namespace adaact
