#include "optim/lamb/lamb_update.h"

#include <cmath>

#include <ATen/Dispatch.h>

#include "kernels/cpu_dispatch.h"
#include "kernels/global_norm.h"
#include "kernels/grain.h"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

template <typename Scalar, typename State>
struct LambLoop {
  static ADAACT_LOOP_BODY void run(const Scalar* theta, const Scalar* grad, State* m, State* v,
                                   State* u, std::int64_t count,
                                   const LambElementScalars<State>* scalars) {
    const auto s = *scalars;
    for (std::int64_t i = 0; i < count; ++i) {
      const State g = static_cast<State>(grad[i]) * s.gradient_scale;
      m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
      v[i] = s.beta2 * v[i] + s.one_minus_beta2 * g * g;
      u[i] = s.m_scale * m[i] / (std::sqrt(s.v_scale * v[i]) + s.eps) +
             s.weight_decay * static_cast<State>(theta[i]);
    }
  }
};

/// r = ‖θ‖/‖u‖, 1 where either is 0.
double trust_ratio(const torch::Tensor& theta, const torch::Tensor& u, const LambScalars& step) {
  if (!step.adapts) return 1.0;
  const auto theta_norm = norm_of(theta).item<double>();
  const auto u_norm = norm_of(u).item<double>();
  const auto ratio = theta_norm > 0.0 && u_norm > 0.0 ? theta_norm / u_norm : 1.0;
  return step.trust_clip ? std::min(ratio, 1.0) : ratio;
}

}  // namespace

void lamb_update_reference(const LambTensors& tensors, const LambScalars& step) {
  const auto& [theta, grad, m, v] = tensors;
  const auto g = grad.to(m.dtype()) * step.gradient_scale;
  m.mul_(step.beta1).add_(g, 1.0 - step.beta1);         // m
  v.mul_(step.beta2).addcmul_(g, g, 1.0 - step.beta2);  // v
  const auto old = theta.to(m.dtype());
  const auto u = (m / step.correction1) / ((v / step.correction2).sqrt() + step.eps) +
                 step.weight_decay * old;                        // u
  theta.copy_(old - step.lr * trust_ratio(theta, u, step) * u);  // θ
}

void lamb_update_cpu(const LambTensors& tensors, const LambScalars& step) {
  const auto u = torch::empty_like(tensors.m);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, tensors.theta.scalar_type(), "lamb_update_cpu", [&] {
        using State = SumOf<scalar_t>;
        const auto* theta = tensors.theta.data_ptr<scalar_t>();
        const auto* g = tensors.g.data_ptr<scalar_t>();
        auto* m = tensors.m.data_ptr<State>();
        auto* v = tensors.v.data_ptr<State>();
        auto* u_data = u.data_ptr<State>();
        const auto scalars = LambElementScalars<State>::of(step);
        parallel_chunks(tensors.theta.numel(), [&](std::int64_t begin, std::int64_t end) {
          run_vectorized<LambLoop<scalar_t, State>>(theta + begin, g + begin, m + begin, v + begin,
                                                    u_data + begin, end - begin, &scalars);
        });
      });
  tensors.theta.add_(u, -step.lr * trust_ratio(tensors.theta, u, step));
}

}  // namespace adaact
