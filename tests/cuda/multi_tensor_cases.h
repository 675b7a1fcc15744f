#pragma once

// Drawn parameters for the multi-tensor updates, with what the reference functions make of them in
// float64 on the CPU. The three optimizers look the same to the tests.

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <adaact/optim/row_moments.h>
#include <torch/torch.h>

#include "kernels/global_norm_cuda.h"
#include "optim/adaact/row_averages.h"
#include "optim/adaact/update.h"
#include "optim/adaact/update_cuda.h"
#include "optim/adan/adan_update_cuda.h"
#include "optim/base/parameter_update.h"
#include "optim/device/device_step.h"
#include "optim/lamb/lamb_update_cuda.h"

namespace adaact::testing {

constexpr int64_t kGroups = 3;
constexpr double kGuard = 77.0;  // around every tensor; no kernel may write there

/// A tensor of the given order in memory, from the given place of its storage on.
inline torch::Tensor placed(const torch::Tensor& values, torch::IntArrayRef strides,
                            int64_t offset) {
  const auto room = offset + values.numel() + 8;
  return torch::full({room}, kGuard, values.options().device(torch::kCUDA))
      .as_strided(values.sizes(), strides, offset)
      .copy_(values);
}

/// With the same strides and alignment, so that a kernel takes the same way.
inline torch::Tensor same_place_copy(const torch::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return placed(tensor, tensor.strides(), tensor.storage_offset());
}

inline bool guard_is_intact(const torch::Tensor& tensor) {
  const auto room = tensor.storage_offset() + tensor.numel() + 8;
  const auto storage = tensor.as_strided({room}, {1}, 0);
  const auto around =
      torch::cat({storage.narrow(0, 0, tensor.storage_offset()), storage.narrow(0, room - 8, 8)});
  return around.eq(kGuard).all().item<bool>();
}

inline torch::Tensor oracle_copy(const torch::Tensor& tensor) {
  return tensor.to(torch::kCPU, torch::kFloat64).contiguous().clone();
}

class ParameterDraw {
 public:
  /// Every tensor has this many times as many rows as it would have.
  explicit ParameterDraw(unsigned seed, int64_t row_factor = 1)
      : random_(seed), row_factor_(row_factor) {
    torch::manual_seed(seed);
  }

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  /// Next parameter: its dtype, shape, order in memory and alignment.
  void next(bool is_weight) {
    const torch::ScalarType dtypes[] = {torch::kFloat32, torch::kBFloat16, torch::kHalf,
                                        torch::kFloat64};
    dtype_ = dtypes[between(0, 3)];
    const auto dims = between(is_weight ? 2 : 0, 5);
    shape_.clear();
    for (int64_t d = 0; d < dims; ++d) shape_.push_back(between(1, dims > 3 ? 6 : 40));
    if (dims > 0 && dims < 3 && one_in(12)) shape_.back() = between(2000, 9000);
    if (dims > 0) shape_[0] *= !is_weight && one_in(20) ? 0 : row_factor_;
    std::vector<int64_t> order(static_cast<std::size_t>(dims));
    for (int64_t d = 0; d < dims; ++d) order[d] = d;
    if (dims > 2 && one_in(2)) {
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());  // channels last
    } else if (!is_weight && one_in(3)) {
      std::reverse(order.begin(), order.end());
    }
    strides_.assign(shape_.size(), 1);
    int64_t stride = 1;
    for (auto d = dims - 1; d >= 0; --d) {
      strides_[order[d]] = stride;
      stride *= std::max<int64_t>(1, shape_[order[d]]);
    }
    is_unaligned_ = one_in(4);
  }

  torch::Tensor parameter() { return tensor(torch::randn(shape_).to(dtype_)); }
  torch::Tensor state() { return tensor(torch::randn(shape_).to(state_dtype())); }
  torch::Tensor positive_state() { return tensor((torch::rand(shape_) + 0.2).to(state_dtype())); }
  torch::Tensor statistics(int64_t segments, double scale) {
    const auto values = (torch::rand({segments, columns()}) + 0.1) * scale;
    return values.to(torch::kCUDA, state_dtype());
  }
  int64_t rows() const { return shape_[0]; }
  int64_t columns() const {
    return std::accumulate(shape_.begin() + 1, shape_.end(), int64_t{1}, std::multiplies<>());
  }

 private:
  torch::ScalarType state_dtype() const {
    return dtype_ == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  }
  torch::Tensor tensor(const torch::Tensor& values) {
    return placed(values, strides_, is_unaligned_ ? between(1, 7) : 0);
  }

  std::mt19937 random_;
  const int64_t row_factor_;
  torch::ScalarType dtype_ = torch::kFloat32;
  std::vector<int64_t> shape_, strides_;
  bool is_unaligned_ = false;
};

/// What a tensor of a parameter should become.
struct Expectation {
  std::string name;
  torch::Tensor actual, before, expected;
};

inline Expectation expectation(const std::string& name, const torch::Tensor& tensor,
                               const torch::Tensor& expected) {
  return {name, tensor, oracle_copy(tensor), expected.view(tensor.sizes())};
}

struct AdaActCase {
  using Parameter = AdaActParameter;

  static Parameter draw(ParameterDraw& draw) {
    const auto kind = draw.between(0, 3);  // 0, 1: observed; 2: constant input; 3: plain gradient
    draw.next(kind < 2);
    Parameter p;
    p.tensors.theta = draw.parameter();
    p.tensors.g = draw.parameter();
    if (kind < 3) p.tensors.m = draw.state();
    p.updates = draw.between(0, 30);
    if (kind < 2) {
      std::vector<int64_t> divisors;
      for (int64_t s = 1; s <= draw.rows(); ++s) {
        if (draw.rows() % s == 0) divisors.push_back(s);
      }
      const auto segments = divisors[draw.between(0, static_cast<int64_t>(divisors.size()) - 1)];
      const bool seen_now = !draw.one_in(4);
      p.observations = draw.between(seen_now ? 0 : 1, 30);
      p.tensors.v = draw.statistics(segments, p.observations == 0 ? 0.0 : 1.0);
      p.count = draw.between(1, 5000);
      if (seen_now) p.tensors.sum = draw.statistics(segments, static_cast<double>(p.count));
    }
    p.group = draw.between(0, kGroups - 1);
    p.lr = draw.real(0.0, 0.2);
    p.beta1 = draw.one_in(5) ? 0.0 : draw.real(0.5, 0.99);
    p.beta2 = draw.real(0.5, 0.999);
    p.eps = draw.one_in(2) ? 1e-8 : 1e-2;
    p.weight_decay = draw.one_in(3) ? 0.0 : draw.real(0.0, 0.1);
    p.power = draw.one_in(2) ? 0.5 : draw.real(0.1, 1.0);
    if (draw.one_in(3)) p.clip_low = 0.4;
    if (draw.one_in(3)) p.clip_high = 0.7;
    return p;
  }

  static void update(const std::vector<Parameter>& list, const DeviceStep* step = nullptr) {
    adaact_update_cuda(list, step);
  }

  static std::vector<Expectation> expect(const Parameter& p, double /*gradient_norm*/) {
    const auto& [theta, g, m, v, sum] = p.tensors;
    const auto rows = v.defined() ? theta.size(0) : 1;
    const auto matrix = [&](const torch::Tensor& tensor) {
      return oracle_copy(tensor).view({rows, tensor.numel() / rows});
    };
    AdaActScalars step{p.lr, p.beta1, p.weight_decay, bias_correction(p.beta1, p.updates + 1)};
    const auto new_theta = matrix(theta);
    if (!m.defined()) {
      plain_gradient_update({new_theta}, {matrix(g)}, step);
      return {expectation("theta", theta, new_theta)};
    }
    const auto new_m = matrix(m);
    auto v_hat =
        torch::full({1, new_m.size(1)}, std::clamp(1.0, p.clip_low, p.clip_high), torch::kFloat64);
    std::vector<Expectation> expected;
    if (v.defined()) {
      const auto moments = moments_after(p);
      expected.push_back(expectation("v", v, moments.ema));
      v_hat = unbiased(moments, p.beta2);
    }
    adaact_update_anywhere(new_theta, new_m, matrix(g), adaact_denominator(v_hat, p.power, p.eps),
                           step);
    expected.push_back(expectation("theta", theta, new_theta));
    expected.push_back(expectation("m", m, new_m));
    return expected;
  }

  static RowMoments moments_after(const Parameter& p) {
    const auto& v = p.tensors.v;
    const auto rows = p.tensors.theta.size(0);
    RowMoments moments;
    if (p.observations > 0) {
      const auto run = rows / v.size(0);
      for (int64_t row = 0; row < rows; row += run) {
        moments.segments.push_back({row, row + run, p.observations});
      }
      moments.ema = oracle_copy(v);
    }
    if (p.tensors.sum.defined()) {
      const PendingMoment seen{0, 0, rows, {oracle_copy(p.tensors.sum), p.count}, {}};
      update_row_moments(moments, {&seen}, p.beta2, p.clip_low, p.clip_high);
    }
    return moments;
  }

  static void count_step(Parameter& p) {
    ++p.updates;
    if (p.tensors.sum.defined()) ++p.observations;
  }

  static std::vector<torch::Tensor*> tensors_of(Parameter& p) {
    return {&p.tensors.theta, &p.tensors.g, &p.tensors.m, &p.tensors.v, &p.tensors.sum};
  }
  static torch::Tensor second_input(const Parameter& p) { return p.tensors.sum; }
};

struct AdanCase {
  using Parameter = AdanParameter;

  static Parameter draw(ParameterDraw& draw) {
    draw.next(false);
    Parameter p;
    p.tensors = {draw.parameter(), draw.parameter(),      draw.state(),
                 draw.state(),     draw.positive_state(), draw.state()};
    p.group = draw.between(0, kGroups - 1);
    p.lr = draw.real(0.0, 0.05);
    p.beta1 = draw.real(0.5, 0.99);
    p.beta2 = draw.real(0.5, 0.99);
    p.beta3 = draw.real(0.5, 0.99);
    p.eps = draw.one_in(2) ? 1e-8 : 1e-2;
    p.weight_decay = draw.one_in(3) ? 0.0 : draw.real(0.0, 0.1);
    p.proximal = draw.one_in(2);
    if (draw.one_in(2)) p.max_grad_norm = draw.real(0.5, 200.0);
    p.updates = draw.one_in(3) ? 0 : draw.between(1, 30);
    return p;
  }

  static void update(const std::vector<Parameter>& list, const DeviceStep* step = nullptr) {
    std::vector<torch::Tensor> gradients;
    for (const auto& p : list) gradients.push_back(p.tensors.g);
    adan_update_cuda(list, global_norm_cuda(gradients), step);
  }

  static std::vector<Expectation> expect(const Parameter& p, double gradient_norm) {
    const auto& t = p.tensors;
    AdanScalars step{p};
    step.gradient_scale = std::min(1.0, p.max_grad_norm / (gradient_norm + p.eps));
    step.correction1 = bias_correction(p.beta1, p.updates + 1);
    step.correction2 = bias_correction(p.beta2, p.updates + 1);
    step.correction3 = bias_correction(p.beta3, p.updates + 1);
    const AdanTensors after{oracle_copy(t.theta), oracle_copy(t.g), oracle_copy(t.m),
                            oracle_copy(t.v),     oracle_copy(t.n), oracle_copy(t.previous)};
    if (p.updates == 0) after.previous.copy_(after.g).mul_(step.gradient_scale);
    adan_update_reference(after, step);
    return {expectation("theta", t.theta, after.theta), expectation("m", t.m, after.m),
            expectation("v", t.v, after.v), expectation("n", t.n, after.n),
            expectation("previous", t.previous, after.previous)};
  }

  static void count_step(Parameter& p) { ++p.updates; }
  static std::vector<torch::Tensor*> tensors_of(Parameter& p) {
    auto& t = p.tensors;
    return {&t.theta, &t.g, &t.m, &t.v, &t.n, &t.previous};
  }
  static torch::Tensor second_input(const Parameter& /*p*/) { return {}; }
};

struct LambCase {
  using Parameter = LambParameter;

  static Parameter draw(ParameterDraw& draw) {
    draw.next(false);
    Parameter p;
    p.tensors = {draw.parameter(), draw.parameter(), draw.state(), draw.positive_state()};
    if (draw.one_in(6)) p.tensors.theta.zero_();  // of norm 0: r is 1
    p.group = draw.between(0, kGroups - 1);
    p.lr = draw.real(0.0, 0.05);
    p.beta1 = draw.real(0.5, 0.99);
    p.beta2 = draw.real(0.5, 0.99);
    p.eps = draw.one_in(2) ? 1e-6 : 1e-2;
    p.weight_decay = draw.one_in(3) ? 0.0 : draw.real(0.0, 0.1);
    p.adapts = !draw.one_in(3);
    p.trust_clip = draw.one_in(2);
    if (draw.one_in(2)) p.max_grad_norm = draw.real(0.5, 200.0);
    p.updates = draw.between(0, 30);
    return p;
  }

  static void update(const std::vector<Parameter>& list, const DeviceStep* step = nullptr) {
    std::vector<torch::Tensor> gradients;
    for (const auto& p : list) gradients.push_back(p.tensors.g);
    lamb_update_cuda(list, global_norm_cuda(gradients), step);
  }

  static std::vector<Expectation> expect(const Parameter& p, double gradient_norm) {
    const auto& t = p.tensors;
    LambScalars step{p};
    step.gradient_scale = 1.0 / std::max(1.0, gradient_norm / p.max_grad_norm);
    step.correction1 = bias_correction(p.beta1, p.updates + 1);
    step.correction2 = bias_correction(p.beta2, p.updates + 1);
    const LambTensors after{oracle_copy(t.theta), oracle_copy(t.g), oracle_copy(t.m),
                            oracle_copy(t.v)};
    lamb_update_reference(after, step);
    return {expectation("theta", t.theta, after.theta), expectation("m", t.m, after.m),
            expectation("v", t.v, after.v)};
  }

  static void count_step(Parameter& p) { ++p.updates; }
  static std::vector<torch::Tensor*> tensors_of(Parameter& p) {
    return {&p.tensors.theta, &p.tensors.g, &p.tensors.m, &p.tensors.v};
  }
  static torch::Tensor second_input(const Parameter& /*p*/) { return {}; }
};

}  // namespace adaact::testing
