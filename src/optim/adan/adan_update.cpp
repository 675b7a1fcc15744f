#include "optim/adan/adan_update.h"

#include <cmath>

#include <ATen/Dispatch.h>

#include "kernels/cpu_dispatch.h"
#include "kernels/grain.h"
#include "kernels/sum_dtype.h"

namespace adaact {
namespace {

template <typename Scalar, typename State>
struct AdanLoop {
  static ADAACT_LOOP_BODY void run(Scalar* theta, const Scalar* grad, State* m, State* v, State* n,
                                   State* previous, std::int64_t count,
                                   const AdanElementScalars<State>* scalars) {
    const auto s = *scalars;
    for (std::int64_t i = 0; i < count; ++i) {
      const State g = static_cast<State>(grad[i]) * s.gradient_scale;
      const State diff = g - previous[i];
      const State ahead = g + s.beta2 * diff;
      m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
      v[i] = s.beta2 * v[i] + s.one_minus_beta2 * diff;
      n[i] = s.beta3 * n[i] + s.one_minus_beta3 * ahead * ahead;
      const State u = (s.m_scale * m[i] + s.v_scale * v[i]) / (std::sqrt(s.n_scale * n[i]) + s.eps);
      theta[i] = static_cast<Scalar>(s.theta_scale * static_cast<State>(theta[i]) - s.u_scale * u);
      previous[i] = g;
    }
  }
};

}  // namespace

void adan_update_reference(const AdanTensors& tensors, const AdanScalars& step) {
  const auto& [theta, grad, m, v, n, previous] = tensors;
  const auto g = grad.to(m.dtype()) * step.gradient_scale;
  const auto diff = g - previous;                                               // Δ
  m.mul_(step.beta1).add_(g, 1.0 - step.beta1);                                 // m
  v.mul_(step.beta2).add_(diff, 1.0 - step.beta2);                              // v
  n.mul_(step.beta3).add_((g + step.beta2 * diff).square(), 1.0 - step.beta3);  // n
  const auto u = (m / step.correction1 + step.beta2 * v / step.correction2) /
                 ((n / step.correction3).sqrt() + step.eps);  // u
  const auto decay = step.lr * step.weight_decay;
  const auto old = theta.to(m.dtype());
  theta.copy_(step.proximal ? (old - step.lr * u) / (1.0 + decay)
                            : (1.0 - decay) * old - step.lr * u);  // θ
  previous.copy_(g);
}

void adan_update_cpu(const AdanTensors& tensors, const AdanScalars& step) {
  AT_DISPATCH_FLOATING_TYPES_AND2(
      torch::kHalf, torch::kBFloat16, tensors.theta.scalar_type(), "adan_update_cpu", [&] {
        using State = SumOf<scalar_t>;
        auto* theta = tensors.theta.data_ptr<scalar_t>();
        const auto* g = tensors.g.data_ptr<scalar_t>();
        auto* m = tensors.m.data_ptr<State>();
        auto* v = tensors.v.data_ptr<State>();
        auto* n = tensors.n.data_ptr<State>();
        auto* previous = tensors.previous.data_ptr<State>();
        const auto scalars = AdanElementScalars<State>::of(step);
        parallel_chunks(tensors.theta.numel(), [&](std::int64_t begin, std::int64_t end) {
          run_vectorized<AdanLoop<scalar_t, State>>(theta + begin, g + begin, m + begin, v + begin,
                                                    n + begin, previous + begin, end - begin,
                                                    &scalars);
        });
      });
}

}  // namespace adaact
