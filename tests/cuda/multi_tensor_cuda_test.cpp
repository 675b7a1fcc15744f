// The updates of a whole model at once, and the step that a graph can hold, against the reference
// functions. Skips, visibly, where there is no GPU.

#include <algorithm>
#include <limits>
#include <memory>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "cuda/multi_tensor_cases.h"
#include "kernels/clip_norm_cuda.h"
#include "kernels/global_norm.h"
#include "support/tolerance.h"

namespace {

using namespace adaact;
using namespace adaact::testing;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class MultiTensorCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

template <typename OneCase>
class MultiTensorUpdate : public MultiTensorCuda {
 protected:
  using Parameter = typename OneCase::Parameter;
  using List = std::vector<Parameter>;

  static List draw_list(ParameterDraw& draw, int64_t size) {
    List list;
    for (int64_t i = 0; i < size; ++i) list.push_back(OneCase::draw(draw));
    return list;
  }

  static List copy_of(List list) {
    for (auto& parameter : list) {
      for (auto* tensor : OneCase::tensors_of(parameter)) *tensor = same_place_copy(*tensor);
    }
    return list;
  }

  static std::vector<torch::Tensor> values_of(List& list) {
    std::vector<torch::Tensor> values;
    for (auto& parameter : list) {
      for (const auto* tensor : OneCase::tensors_of(parameter)) {
        if (tensor->defined()) values.push_back(tensor->clone());
      }
    }
    return values;
  }

  /// What a step reads and must be finite.
  static std::vector<torch::Tensor> inputs_of(const List& list) {
    std::vector<torch::Tensor> inputs;
    for (const auto& parameter : list) {
      inputs.push_back(parameter.tensors.g);
      const auto other = OneCase::second_input(parameter);
      if (other.defined()) inputs.push_back(other);
    }
    return inputs;
  }

  static void expect_the_reference(List& list) {
    std::vector<torch::Tensor> gradients;
    for (const auto& parameter : list) gradients.push_back(oracle_copy(parameter.tensors.g));
    const auto norm = global_norm(gradients);
    std::vector<std::vector<Expectation>> expected;
    for (const auto& parameter : list) {
      ASSERT_TRUE(can_update_cuda(parameter));
      expected.push_back(OneCase::expect(parameter, norm));
    }
    OneCase::update(list);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& theta = list[i].tensors.theta;
      SCOPED_TRACE(::testing::Message() << "parameter " << i << ": " << theta.scalar_type() << " "
                                        << theta.sizes() << " strides " << theta.strides());
      for (const auto& each : expected[i]) {
        EXPECT_LE(step_error(each), tolerance_of(each.actual.scalar_type())) << each.name;
      }
      EXPECT_TRUE(guard_is_intact(theta));
      const auto& m = list[i].tensors.m;
      EXPECT_TRUE(!m.defined() || guard_is_intact(m));
    }
  }

  /// Relative to what was added up, for the difference of two large numbers may be small, and not to
  /// less than float16 has with all its digits.
  static double step_error(const Expectation& each) {
    if (each.expected.numel() == 0) return 0.0;
    const auto largest = torch::max(each.expected.abs().max(), each.before.abs().max());
    const auto error = (oracle_copy(each.actual) - each.expected).abs().max();
    return (error / largest.clamp_min(1e-4)).item<double>();
  }

  static double tolerance_of(torch::ScalarType dtype) {
    if (dtype == torch::kBFloat16) return 8e-3;
    return dtype == torch::kHalf ? 1e-3 : tolerance(dtype);
  }
};

using Cases = ::testing::Types<AdaActCase, AdanCase, LambCase>;
TYPED_TEST_SUITE(MultiTensorUpdate, Cases);

TYPED_TEST(MultiTensorUpdate, DrawnListsAgreeWithTheReference) {
  ParameterDraw draw(31);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    auto list = this->draw_list(draw, draw.between(1, 10));
    this->expect_the_reference(list);
    if (this->HasFailure()) return;
  }
}

TYPED_TEST(MultiTensorUpdate, MoreTensorsThanOneLaunchHoldsAgreeWithTheReference) {
  ParameterDraw draw(32);
  for (const int64_t size : {64, 65, 1500}) {
    auto list = this->draw_list(draw, size);
    this->expect_the_reference(list);
  }
}

TYPED_TEST(MultiTensorUpdate, LargeTensorsAgreeWithTheReference) {
  ParameterDraw draw(33, /*row_factor=*/50);
  auto list = this->draw_list(draw, 15);
  this->expect_the_reference(list);
}

TYPED_TEST(MultiTensorUpdate, EqualInputsGiveEqualBits) {
  ParameterDraw draw(34);
  for (int i = 0; i < 20; ++i) {
    auto one = this->draw_list(draw, 30);
    auto other = this->copy_of(one);
    TypeParam::update(one);
    TypeParam::update(other);
    expect_bit_identical(this->values_of(one), this->values_of(other));
  }
}

/// A step in a graph, next to the same parameters in eager steps.
template <typename OneCase>
class CapturedStep : public MultiTensorUpdate<OneCase> {
 protected:
  using List = typename MultiTensorUpdate<OneCase>::List;

  void SetUp() override {
    MultiTensorUpdate<OneCase>::SetUp();
    if (::testing::Test::IsSkipped()) return;
    do {
      captured_ = this->draw_list(draw_, 25);
    } while (!all_have_elements());
    eager_ = this->copy_of(captured_);
    auto first_use = this->copy_of(captured_);  // kernels are loaded outside the capture
    step_ = make_device_step(kGroups, captured_[0].tensors.theta.device());
    const auto unused = make_device_step(kGroups, captured_[0].tensors.theta.device());
    run_step(first_use, unused);
    read_counts(unused);
    const c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromPool());
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    graph_->capture_begin();
    run_step(captured_, step_);
    graph_->capture_end();
    c10::cuda::getCurrentCUDAStream().synchronize();
  }

  static void run_step(const List& list, const DeviceStep& step) {
    begin_step_cuda(step);
    check_finite_cuda(MultiTensorUpdate<OneCase>::inputs_of(list), kFirstIndex, step);
    OneCase::update(list, &step);
    end_step_cuda(step);
  }

  bool all_have_elements() const {
    return std::all_of(captured_.begin(), captured_.end(),
                       [](const auto& parameter) { return parameter.tensors.theta.numel() > 0; });
  }

  /// New gradients, statistics and learning rates for both.
  void draw_step() {
    const auto targets = this->inputs_of(captured_);
    const auto copies = this->inputs_of(eager_);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i].mul_(torch::rand_like(targets[i]) + 0.5);
      copies[i].copy_(targets[i]);
    }
    const auto rates = torch::rand({kGroups}, torch::kFloat64) * 0.1;
    step_.lr.copy_(rates);
    for (auto& parameter : eager_) {
      parameter.lr = rates[parameter.group].template item<double>();
    }
  }

  void take_eager_step() {
    OneCase::update(eager_);
    for (auto& parameter : eager_) OneCase::count_step(parameter);
  }

  /// Replays with the last element of these inputs replaced.
  void replay_with(double value, const std::vector<std::size_t>& poisoned) {
    const auto inputs = this->inputs_of(captured_);
    std::vector<torch::Tensor> kept;
    for (const auto i : poisoned) {
      kept.push_back(inputs[i].clone());
      auto last = inputs[i];
      while (last.dim() > 0) last = last.select(0, last.size(0) - 1);
      last.fill_(value);
    }
    replay();
    for (std::size_t k = 0; k < poisoned.size(); ++k) inputs[poisoned[k]].copy_(kept[k]);
  }

  void replay() {
    graph_->replay();
    torch::cuda::synchronize();
  }

  static constexpr int64_t kFirstIndex = 100;
  ParameterDraw draw_{35};
  List captured_, eager_;
  DeviceStep step_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;  // cannot be made where there is no GPU
};

TYPED_TEST_SUITE(CapturedStep, Cases);

TYPED_TEST(CapturedStep, ReplaysEqualEagerSteps) {
  for (int t = 1; t <= 10; ++t) {
    this->draw_step();
    this->replay();
    this->take_eager_step();
    expect_bit_identical(this->values_of(this->captured_), this->values_of(this->eager_));
    const auto counts = read_counts(this->step_);
    EXPECT_EQ(counts.accepted, t);
    EXPECT_EQ(counts.rejected, 0);
    EXPECT_EQ(counts.culprit, kNoCulprit);
  }
}

TYPED_TEST(CapturedStep, ARejectedReplayChangesNothingAndIsNotCounted) {
  for (int t = 1; t <= 10; ++t) {
    this->draw_step();
    if (t == 1 || t == 5) {
      const auto before = this->values_of(this->captured_);
      if (t == 1) {
        this->replay_with(kNaN, {17, 4, 9});
      } else {
        this->replay_with(-kInfinity, {0});  // not the first rejected step
      }
      expect_bit_identical(this->values_of(this->captured_), before);
    }
    this->replay();
    this->take_eager_step();
    expect_bit_identical(this->values_of(this->captured_), this->values_of(this->eager_));
  }
  const auto counts = read_counts(this->step_);
  EXPECT_EQ(counts.accepted, 10);
  EXPECT_EQ(counts.rejected, 2);
  EXPECT_EQ(counts.culprit, this->kFirstIndex + 4);
}

TEST_F(MultiTensorCuda, OneElementThatIsNotFiniteIsFoundWhereverItIs) {
  ParameterDraw draw(36);
  const auto step = make_device_step(1, torch::Device(torch::kCUDA, 0));
  for (int i = 0; i < 300; ++i) {
    std::vector<torch::Tensor> tensors;
    const auto size = draw.one_in(20) ? 1200 : draw.between(1, 20);
    for (int64_t k = 0; k < size; ++k) {
      draw.next(false);
      auto tensor = draw.parameter();
      if (tensor.dim() > 0 && draw.one_in(6)) tensor = tensor.slice(-1, 0, tensor.size(-1), 2);
      if (tensor.dim() > 0 && draw.one_in(6))
        tensor = tensor.narrow(0, 0, std::min<int64_t>(1, tensor.size(0)));
      if (draw.one_in(10)) tensor = torch::randn({7}, torch::kCUDA).expand({5, 7});
      if (draw.one_in(10))
        tensor = torch::randn({9}, torch::dtype(torch::kComplexFloat).device(torch::kCUDA));
      if (draw.one_in(10))
        tensor = torch::full({33}, std::numeric_limits<float>::max(), torch::kCUDA);
      tensors.push_back(tensor);
    }
    step.rejected.zero_();
    step.culprit.fill_(kNoCulprit);
    begin_step_cuda(step);
    check_finite_cuda(tensors, 0, step);
    ASSERT_EQ(step.bad.item<int32_t>(), 0);
    const auto culprit = draw.between(0, size - 1);
    auto element = tensors[culprit];
    if (element.numel() == 0) continue;
    while (element.dim() > 0) element = element.select(0, draw.between(0, element.size(0) - 1));
    const double values[] = {kNaN, kInfinity, -kInfinity};
    element.fill_(values[draw.between(0, 2)]);
    check_finite_cuda(tensors, 0, step);
    end_step_cuda(step);
    const auto counts = read_counts(step);
    EXPECT_EQ(counts.rejected, 1);
    EXPECT_EQ(counts.culprit, culprit);
    if (HasFailure()) return;
  }
}

TEST_F(MultiTensorCuda, GlobalNormAgreesWithTheCpuAndRepeatsItself) {
  ParameterDraw draw(37);
  for (int i = 0; i < 200; ++i) {
    std::vector<torch::Tensor> tensors, copies;
    const auto size = draw.one_in(20) ? 1200 : draw.between(1, 20);
    for (int64_t k = 0; k < size; ++k) {
      draw.next(false);
      tensors.push_back(draw.parameter());
      copies.push_back(oracle_copy(tensors.back()));
    }
    const auto norm = global_norm_cuda(tensors);
    EXPECT_TRUE(
        all_close(norm.cpu()[0], torch::tensor(global_norm(copies), torch::kFloat64), 1e-12));
    EXPECT_TRUE(bit_identical(global_norm_cuda(tensors), norm));
  }
}

TEST_F(MultiTensorCuda, ALargeNormIsClippedAndNoOther) {
  ParameterDraw draw(41);
  const auto norm_of_size = [](double norm) {
    return torch::full({1}, norm, torch::dtype(torch::kFloat64).device(torch::kCUDA));
  };
  for (int i = 0; i < 100; ++i) {
    std::vector<torch::Tensor> tensors, copies;
    const auto size = draw.one_in(20) ? 1200 : draw.between(1, 20);
    for (int64_t k = 0; k < size; ++k) {
      draw.next(false);
      tensors.push_back(draw.parameter());
      copies.push_back(tensors.back().clone());
    }
    for (const auto norm : {0.0, 2.0, kNaN}) clip_norm_cuda(tensors, norm_of_size(norm), 2.0);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      EXPECT_TRUE(bit_identical(tensors[k], copies[k]));
    }
    const auto norm = draw.real(2.1, 50.0);
    clip_norm_cuda(tensors, norm_of_size(norm), 2.0);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      EXPECT_TRUE(bit_identical(tensors[k], copies[k].mul(2.0 / norm)));
      EXPECT_TRUE(guard_is_intact(tensors[k]));
    }
    if (HasFailure()) return;
  }
}

TEST_F(MultiTensorCuda, WhatHasGapsIsClippedToo) {
  const auto rows = torch::ones({6, 8}, torch::kCUDA);
  const auto every_second = rows.slice(/*dim=*/1, 0, 8, 2);
  const auto version = every_second._version();
  clip_norm_cuda({every_second}, torch::full({1}, 4.0, rows.options().dtype(torch::kFloat64)), 1.0);
  EXPECT_TRUE(torch::equal(every_second.cpu(), torch::full({6, 4}, 0.25)));
  EXPECT_EQ(rows.sum().item<float>(), 24 * 0.25F + 24);
  EXPECT_GT(every_second._version(), version);
}

TEST_F(MultiTensorCuda, ANormThatIsInfiniteLeavesSomethingThatIsNotFinite) {
  const auto tensor = torch::tensor({1.0F, static_cast<float>(kInfinity)}).cuda();
  clip_norm_cuda({tensor}, global_norm_cuda({tensor}), 1.0);
  EXPECT_FALSE(torch::isfinite(tensor).all().item<bool>());
}

TEST_F(MultiTensorCuda, WhatTheKernelsDoNotKnowIsToldBeforehand) {
  const auto cuda = torch::dtype(torch::kFloat32).device(torch::kCUDA);
  AdaActParameter good;
  good.tensors.theta = torch::randn({6, 4, 3, 3}, cuda);
  good.tensors.g = torch::randn({6, 4, 3, 3}, cuda);
  good.tensors.m = torch::randn({6, 4, 3, 3}, cuda);
  good.tensors.v = torch::ones({2, 36}, cuda);
  EXPECT_TRUE(can_update_cuda(good));
  const auto cannot = [&](torch::Tensor AdaActTensors::*which, const torch::Tensor& tensor) {
    auto bad = good;
    bad.tensors.*which = tensor;
    return !can_update_cuda(bad);
  };
  const auto& theta = good.tensors.theta;
  const auto channels_last = torch::MemoryFormat::ChannelsLast;
  EXPECT_TRUE(cannot(&AdaActTensors::g, torch::Tensor()));
  EXPECT_TRUE(cannot(&AdaActTensors::g, theta.cpu()));
  EXPECT_TRUE(cannot(&AdaActTensors::g, theta.to(torch::kHalf)));
  EXPECT_TRUE(cannot(&AdaActTensors::g, theta.contiguous(channels_last)));
  EXPECT_TRUE(cannot(&AdaActTensors::m, theta.contiguous(channels_last)));
  EXPECT_TRUE(cannot(&AdaActTensors::m, theta.to(torch::kFloat64)));
  EXPECT_TRUE(cannot(&AdaActTensors::m, torch::Tensor()));  // V without M
  EXPECT_TRUE(cannot(&AdaActTensors::g, theta.narrow(0, 0, 1).expand_as(theta)));
  EXPECT_TRUE(cannot(&AdaActTensors::v, torch::ones({4, 36}, cuda)));  // 6 rows among 4
  EXPECT_TRUE(cannot(&AdaActTensors::v, torch::ones({2, 35}, cuda)));
  EXPECT_TRUE(cannot(&AdaActTensors::v, torch::ones({36, 2}, cuda).t()));
  EXPECT_TRUE(cannot(&AdaActTensors::sum, torch::ones({2, 36}, cuda.dtype(torch::kFloat64))));
  auto transposed = good;
  for (auto* tensor : {&transposed.tensors.theta, &transposed.tensors.g, &transposed.tensors.m}) {
    *tensor = tensor->transpose(0, 3).contiguous().transpose(0, 3);
  }
  EXPECT_FALSE(can_update_cuda(transposed));
  transposed.tensors.v = torch::Tensor();  // element by element any common order will do
  EXPECT_TRUE(can_update_cuda(transposed));
}

TEST_F(MultiTensorCuda, AnUpdateIsKnownToAutograd) {
  AdaActParameter parameter;
  parameter.tensors.theta = torch::randn({5}, torch::kCUDA);
  parameter.tensors.g = torch::randn({5}, torch::kCUDA);
  const auto before = parameter.tensors.theta._version();
  adaact_update_cuda({parameter});
  EXPECT_GT(parameter.tensors.theta._version(), before);
}

}  // namespace
