// Weights that are cast together on a GPU against those that autocast casts one by one. Skips, visibly, where there
// is no GPU.

#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <adaact/adaact.h>
#include <adaact/models/registry.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kernels/autocast_setting.h"
#include "kernels/convert_many_cuda.h"
#include "layers/convolution.h"
#include "layers/linear.h"
#include "layers/narrow_weights.h"
#include "layers/patches.h"
#include "layers/plain_layers.h"
#include "support/tolerance.h"
#include "train/step/autocast.h"

namespace {

using adaact::AutocastScope;
using adaact::NarrowWeights;
using adaact::testing::all_close;
using Tensors = std::vector<torch::Tensor>;

const auto kOnGpu = torch::dtype(torch::kFloat32).device(torch::kCUDA);

/// Equal in every bit, the sign of zero among them; any NaN is equal to any other.
void expect_same_bits(const torch::Tensor& actual, const torch::Tensor& expected) {
  ASSERT_EQ(actual.defined(), expected.defined());
  if (!actual.defined()) return;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const auto bits_of = [](const torch::Tensor& of) {
    const auto values = torch::where(of.isnan(), torch::zeros_like(of), of).contiguous();
    return values.view(of.element_size() == 2 ? torch::kInt16 : torch::kInt32);
  };
  EXPECT_TRUE(torch::equal(actual.isnan(), expected.isnan()));
  EXPECT_TRUE(torch::equal(bits_of(actual), bits_of(expected)));
}

void expect_same_bits(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    expect_same_bits(actual[i], expected[i]);
  }
}

// ---- the conversion by itself

struct DtypePair {
  torch::ScalarType from, to;
};

constexpr DtypePair kPairs[] = {{torch::kFloat32, torch::kBFloat16},
                                {torch::kFloat32, torch::kHalf},
                                {torch::kBFloat16, torch::kFloat32},
                                {torch::kHalf, torch::kFloat32}};

class ConvertManyCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(3);
  }

  /// Of all magnitudes, what is too large or too small for the narrow dtypes included.
  static torch::Tensor values(std::int64_t count) {
    const auto exponent = torch::randint(-44, 39, {count}, kOnGpu);
    auto drawn =
        torch::randn({count}, kOnGpu) * torch::pow(torch::full({}, 10.0, kOnGpu), exponent);
    if (count > 2) {
      drawn[0] = NAN;
      drawn[1] = -INFINITY;
      drawn[2] = -0.0;
    }
    return drawn;
  }
};

TEST_F(ConvertManyCuda, RoundsAsToDoesForAnySize) {
  const std::vector<std::int64_t> sizes{0,    1,    2,    3,    4,       5,      255,
                                        1023, 1024, 1025, 4099, 1 << 16, 3000001};
  for (const auto& [of, into] : kPairs) {
    Tensors from, to, expected;
    for (const auto size : sizes) {
      from.push_back(values(size).to(of));
      to.push_back(torch::full({size}, 7.0, from.back().options().dtype(into)));
      expected.push_back(from.back().to(into));
    }
    adaact::convert_many_cuda(from, to);
    expect_same_bits(to, expected);
  }
}

TEST_F(ConvertManyCuda, TakesMoreTensorsThanALaunchDoes) {
  std::mt19937 random(5);
  for (const auto& [of, into] : kPairs) {
    Tensors from, to, expected;
    for (int i = 0; i < 1300; ++i) {
      from.push_back(values(std::uniform_int_distribution<int>(0, 3000)(random)).to(of));
      to.push_back(torch::empty_like(from.back(), into));
      expected.push_back(from.back().to(into));
    }
    adaact::convert_many_cuda(from, to);
    expect_same_bits(to, expected);
  }
}

TEST_F(ConvertManyCuda, WritesNothingButTheElementsWhereverTheyLie) {
  for (const auto& [of, into] : kPairs) {
    Tensors from, to, buffers, expected;
    for (std::int64_t of_from = 0; of_from < 5; ++of_from) {
      for (std::int64_t of_to = 0; of_to < 9; ++of_to) {
        for (const std::int64_t size : {1, 7, 1024, 2051}) {
          from.push_back(values(size + of_from).to(of).narrow(0, of_from, size));
          buffers.push_back(
              torch::full({size + of_to + 9}, 7.0, from.back().options().dtype(into)));
          to.push_back(buffers.back().narrow(0, of_to, size));
          expected.push_back(buffers.back().clone());
          expected.back().narrow(0, of_to, size).copy_(from.back());
        }
      }
    }
    adaact::convert_many_cuda(from, to);
    expect_same_bits(buffers, expected);
  }
}

TEST_F(ConvertManyCuda, TakesAnyOrderThatBothHave) {
  const auto last = torch::MemoryFormat::ChannelsLast;
  Tensors from{torch::randn({8, 3, 5, 5}, kOnGpu).contiguous(last),
               torch::randn({7, 9}, kOnGpu).t(), torch::randn({64, 32, 1, 1}, kOnGpu)};
  Tensors to, expected;
  for (const auto& each : from) {
    to.push_back(
        torch::empty_strided(each.sizes(), each.strides(), each.options().dtype(torch::kBFloat16)));
    expected.push_back(each.to(torch::kBFloat16));
  }
  // The stride of a dimension of size 1 says nothing.
  to[2] = torch::empty({64, 32, 1, 1}, to[2].options()).as_strided({64, 32, 1, 1}, {32, 1, 32, 32});
  adaact::convert_many_cuda(from, to);
  expect_same_bits(to, expected);
}

TEST_F(ConvertManyCuda, RefusesWhatItCannotConvert) {
  const auto x = torch::randn({4, 6}, kOnGpu);
  const auto narrow = x.to(torch::kBFloat16);
  EXPECT_NO_THROW(adaact::convert_many_cuda({}, {}));
  EXPECT_THROW(adaact::convert_many_cuda({x}, {}), c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x}, {x.to(torch::kFloat64)}), c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x}, {narrow.t().contiguous().t()}), c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x.narrow(1, 0, 3)}, {narrow.narrow(1, 0, 3)}),
               c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x}, {narrow.flatten()}), c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x}, {narrow.cpu()}), c10::Error);
  EXPECT_THROW(adaact::convert_many_cuda({x, narrow}, {narrow, narrow}), c10::Error);
}

TEST_F(ConvertManyCuda, IsPartOfAGraph) {
  const auto x = torch::randn({5000}, kOnGpu);
  const auto narrow = torch::empty({5000}, kOnGpu.dtype(torch::kBFloat16));
  adaact::convert_many_cuda({x}, {narrow});  // loads the kernel
  torch::cuda::synchronize();
  at::cuda::CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard guard(at::cuda::getStreamFromPool());
    graph.capture_begin();
    adaact::convert_many_cuda({x}, {narrow});
    graph.capture_end();
  }
  x.normal_();
  torch::cuda::synchronize();
  graph.replay();
  torch::cuda::synchronize();
  expect_same_bits(narrow, x.to(torch::kBFloat16));
}

// ---- models

/// Sizes that are no multiples of anything, a layer that is not used, layers that are used twice, biases of all kinds.
class OddModel : public adaact::Model {
 public:
  OddModel() : Model("head") {
    conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 5, 3)));
    conv2_ = register_module(
        "conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(5, 7, 1).stride(2).bias(false)));
    mixed_ = register_module(
        "mixed", torch::nn::Conv2d(torch::nn::Conv2dOptions(7, 7, 3).padding(1).bias(false)));
    circular_ = register_module(
        "circular", torch::nn::Conv2d(torch::nn::Conv2dOptions(7, 7, 3).padding(1).padding_mode(
                        torch::kCircular)));
    patches_ =
        register_module("patches", torch::nn::Conv2d(torch::nn::Conv2dOptions(7, 11, 3).stride(3)));
    unused_ = register_module("unused", torch::nn::Linear(11, 11));
    twice_ = register_module("twice", torch::nn::Linear(11, 11));
    gelu_ = register_module("gelu", torch::nn::Linear(11, 13));
    branch_ = register_module("branch", torch::nn::Linear(13, 11));
    head_ = register_module("head", torch::nn::Linear(11, 3));
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    auto x = adaact::convolution(conv1_, images).relu();  // (N, 5, 23, 23)
    x = adaact::convolution(conv2_, x).relu();            // (N, 7, 12, 12)
    x = adaact::convolution(mixed_, adaact::convolution(mixed_, x).relu()).relu();
    x = adaact::convolution(circular_, x).relu();
    auto tokens = adaact::embed_patches(patches_, x);  // (N, 16, 11)
    tokens = adaact::linear(twice_, adaact::linear(twice_, tokens));
    const auto branch = adaact::linear_branch(branch_, adaact::linear_gelu(gelu_, tokens));
    return adaact::linear(head_, (tokens + branch.sum()).mean(1));
  }

  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, mixed_{nullptr}, circular_{nullptr},
      patches_{nullptr};
  torch::nn::Linear unused_{nullptr}, twice_{nullptr}, gelu_{nullptr}, branch_{nullptr},
      head_{nullptr};
};

void lay_out_channels_last(torch::nn::Module& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.detach().contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
}

enum class Casts : std::uint8_t { Together, OneByOne };

torch::Tensor logits_of(adaact::Model& model, const torch::Tensor& images, Casts casts) {
  if (casts == Casts::Together) return adaact::forward_with_autocast(model, images, /*bf16=*/true);
  const AutocastScope autocast(images.device(), /*enabled=*/true);
  return model.forward(images).to(torch::kFloat32);
}

/// Logits and gradients of all parameters after some passes.
Tensors passed(adaact::Model& model, const torch::Tensor& images, Casts casts, int passes = 1) {
  for (const auto& parameter : model.parameters()) parameter.mutable_grad() = torch::Tensor();
  Tensors result;
  for (int pass = 0; pass < passes; ++pass) {
    const auto logits = logits_of(model, images + 0.1 * pass, casts);
    const auto weight = torch::arange(logits.numel(), kOnGpu).view_as(logits).sin();
    (logits * weight).sum().backward();
    result.push_back(logits.detach());
  }
  for (const auto& parameter : model.parameters()) {
    result.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
  }
  return result;
}

/// Equal inputs give equal bits while it lives, LibTorch's layers included.
class Reproducible {
 public:
  Reproducible() {
    set(context_.deterministicCuDNN(), true,
        [this](bool on) { context_.setDeterministicCuDNN(on); });
    set(context_.benchmarkCuDNN(), false, [this](bool on) { context_.setBenchmarkCuDNN(on); });
    // The backward passes of the others add up in any order.
    set(context_.userEnabledFlashSDP(), false, [this](bool on) { context_.setSDPUseFlash(on); });
    set(context_.userEnabledMemEfficientSDP(), false,
        [this](bool on) { context_.setSDPUseMemEfficient(on); });
    set(context_.userEnabledCuDNNSDP(), false, [this](bool on) { context_.setSDPUseCuDNN(on); });
  }
  ~Reproducible() {
    for (const auto& put_back : put_back_) put_back();
  }
  Reproducible(const Reproducible&) = delete;
  Reproducible& operator=(const Reproducible&) = delete;

 private:
  void set(bool before, bool value, const std::function<void(bool)>& setter) {
    put_back_.emplace_back([=] { setter(before); });
    setter(value);
  }

  at::Context& context_ = at::globalContext();
  std::vector<std::function<void()>> put_back_;
};

class NarrowWeightsCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(19);
    reproducible_.emplace();
    model_ = std::make_shared<OddModel>();
    model_->to(torch::kCUDA);
    images_ = torch::randn({4, 3, 25, 25}, kOnGpu);
  }

  void expect_as_one_by_one(int passes = 1) {
    const auto expected = passed(*model_, images_, Casts::OneByOne, passes);
    expect_same_bits(passed(*model_, images_, Casts::Together, passes), expected);
  }

  std::optional<Reproducible> reproducible_;
  std::shared_ptr<OddModel> model_;
  torch::Tensor images_;
};

TEST_F(NarrowWeightsCuda, LogitsAndGradientsAreThoseOfAutocast) {
  expect_as_one_by_one();
  EXPECT_FALSE(model_->unused_->weight.grad().defined());
  EXPECT_FALSE(model_->unused_->bias.grad().defined());
  EXPECT_TRUE(model_->gelu_->bias.grad().defined());
}

TEST_F(NarrowWeightsCuda, ChannelsLastIsKept) {
  lay_out_channels_last(*model_);
  images_ = images_.contiguous(torch::MemoryFormat::ChannelsLast);
  expect_as_one_by_one();
  for (const auto& parameter : model_->parameters()) {
    if (parameter.grad().defined()) {
      EXPECT_EQ(parameter.grad().strides(), parameter.strides());
      EXPECT_EQ(parameter.grad().scalar_type(), torch::kFloat32);
    }
  }
  const AutocastScope autocast(torch::kCUDA, true);
  const NarrowWeights narrow(*model_, images_);
  EXPECT_EQ(NarrowWeights::of(model_->conv1_->weight).strides(), model_->conv1_->weight.strides());
}

TEST_F(NarrowWeightsCuda, GradientsOfTwoPassesAreAddedUp) { expect_as_one_by_one(/*passes=*/2); }

TEST_F(NarrowWeightsCuda, WeightsMayLieAnywhere) {
  std::int64_t offset = 1;
  for (auto& parameter : model_->parameters()) {
    const auto buffer = torch::empty({parameter.numel() + offset}, kOnGpu);
    auto moved = buffer.narrow(0, offset, parameter.numel()).view_as(parameter);
    moved.copy_(parameter.detach());
    parameter.set_data(moved);
    offset = offset % 3 + 1;
  }
  expect_as_one_by_one();
}

TEST_F(NarrowWeightsCuda, AFrozenWeightStaysSo) {
  model_->conv2_->weight.requires_grad_(false);
  model_->head_->bias.requires_grad_(false);
  expect_as_one_by_one();
  EXPECT_FALSE(model_->conv2_->weight.grad().defined());
  const AutocastScope autocast(torch::kCUDA, true);
  const NarrowWeights narrow(*model_, images_);
  const auto copy = NarrowWeights::of(model_->conv2_->weight);
  EXPECT_EQ(copy.scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(copy.requires_grad());
  EXPECT_TRUE(NarrowWeights::of(model_->conv1_->weight).requires_grad());
}

TEST_F(NarrowWeightsCuda, AModelThatIsFrozenAltogetherIsCast) {
  for (auto& parameter : model_->parameters()) parameter.requires_grad_(false);
  images_.requires_grad_();
  const auto gradient = [&](Casts casts) {
    return torch::autograd::grad({logits_of(*model_, images_, casts).sin().sum()}, {images_})[0];
  };
  expect_same_bits(gradient(Casts::Together), gradient(Casts::OneByOne));
}

TEST_F(NarrowWeightsCuda, OnlyTheGradientsThatAreAskedForAreMade) {
  const auto gradients = [&](Casts casts) {
    const auto logits = logits_of(*model_, images_, casts);
    return torch::autograd::grad({logits.sin().sum()},
                                 {model_->conv2_->weight, model_->gelu_->bias});
  };
  expect_same_bits(gradients(Casts::Together), gradients(Casts::OneByOne));
  for (const auto& parameter : model_->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(NarrowWeightsCuda, GradientsCanBeDifferentiatedOnceMore) {
  const auto second = [&](Casts casts) {
    const Tensors weights{model_->gelu_->weight, model_->conv2_->weight};
    const auto logits = logits_of(*model_, images_, casts);
    const auto first = torch::autograd::grad({logits.square().sum()}, weights, {}, true, true);
    return torch::autograd::grad({first[0].square().sum() + first[1].square().sum()},
                                 {weights[0], weights[1], model_->head_->weight});
  };
  const auto together = second(Casts::Together);
  const auto expected = second(Casts::OneByOne);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(all_close(together[i], expected[i], 1e-2));
  }
}

/// Convolutions one after the other whose weight gradients take longer than all else.
class Chain : public adaact::Model {
 public:
  Chain() : Model("head") {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(register_module(
          "conv" + std::to_string(i),
          torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 64, 3).padding(1).bias(false))));
    }
    head_ = register_module("head", torch::nn::Linear(64, 3));
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    auto x = images;
    for (auto& layer : layers_) x = adaact::convolution(layer, x) + x;
    return adaact::linear(head_, x.mean(at::IntArrayRef{2, 3}));
  }

  static constexpr int kLayers = 8;
  std::vector<torch::nn::Conv2d> layers_;
  torch::nn::Linear head_{nullptr};
};

// What the second stream reads must not be written again before it has read it. The gradients of x are as large as what
// it reads, and the allocator would give the same memory to the next.
TEST_F(NarrowWeightsCuda, WeightGradientsAreRightHoweverLongTheyTake) {
  Chain chain;
  chain.to(torch::kCUDA);
  lay_out_channels_last(chain);
  const auto images =
      torch::randn({64, 64, 16, 16}, kOnGpu).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto expected = passed(chain, images, Casts::OneByOne);
  for (int repeat = 0; repeat < 20; ++repeat) {
    expect_same_bits(passed(chain, images, Casts::Together), expected);
    if (HasFailure()) return;
  }
}

TEST_F(NarrowWeightsCuda, APassThatThrowsLeavesNothingForTheNext) {
  const auto expected = passed(*model_, images_, Casts::OneByOne);
  {
    const auto logits = logits_of(*model_, images_, Casts::Together);
    const auto hook = model_->conv1_->weight.register_hook(
        [](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("no gradient"); });
    EXPECT_ANY_THROW(logits.sum().backward());
    model_->conv1_->weight.remove_hook(hook);
  }
  expect_same_bits(passed(*model_, images_, Casts::Together), expected);
}

TEST_F(NarrowWeightsCuda, WeightsMayChangeBeforeTheBackwardPass) {
  const auto loss = logits_of(*model_, images_, Casts::Together).sum();
  {
    const torch::NoGradGuard no_grad;
    // Not the biases that are added in float32: their layers save them.
    for (auto& parameter : model_->parameters()) {
      if (parameter.dim() > 1) parameter.mul_(2.0);
    }
  }
  EXPECT_NO_THROW(torch::autograd::grad({loss}, {model_->head_->weight}));
}

TEST_F(NarrowWeightsCuda, CopiesAreThereWhereAutocastWouldMakeThem) {
  const auto& weight = model_->conv1_->weight;
  const auto is_copied = [&] { return !NarrowWeights::of(weight).is_same(weight); };
  EXPECT_FALSE(is_copied());
  {
    const NarrowWeights without_autocast(*model_, images_);
    EXPECT_FALSE(is_copied());
  }
  const AutocastScope autocast(torch::kCUDA, true);
  {
    const NarrowWeights for_the_cpu(*model_, images_.cpu());
    EXPECT_FALSE(is_copied());
  }
  {
    const NarrowWeights narrow(*model_, images_);
    EXPECT_TRUE(is_copied());
    expect_same_bits(NarrowWeights::of(weight).detach(), weight.detach().to(torch::kBFloat16));
    EXPECT_FALSE(NarrowWeights::of(torch::Tensor()).defined());
    {
      const adaact::PlainLayers plain;
      EXPECT_FALSE(is_copied());
    }
    {
      adaact::set_autocast(torch::kCUDA, {false, torch::kBFloat16});
      EXPECT_FALSE(is_copied());
      adaact::set_autocast(torch::kCUDA, {true, torch::kBFloat16});
    }
    {
      const torch::nn::Linear other(2, 2);
      const NarrowWeights inner(*other, images_);
      EXPECT_FALSE(is_copied());
    }
    EXPECT_TRUE(is_copied());
  }
  EXPECT_FALSE(is_copied());
  std::optional<NarrowWeights> without_gradients;
  {
    const torch::NoGradGuard no_grad;
    without_gradients.emplace(*model_, images_);
    EXPECT_TRUE(is_copied());
  }
  EXPECT_FALSE(is_copied());  // a copy would lose the gradient
}

TEST_F(NarrowWeightsCuda, CopiesGoWithTheScopeAndTheGraph) {
  c10::weak_intrusive_ptr<c10::TensorImpl> copy(
      NarrowWeights::of(model_->conv1_->weight).getIntrusivePtr());
  torch::Tensor output;
  {
    const AutocastScope autocast(torch::kCUDA, true);
    const NarrowWeights narrow(*model_, images_);
    copy = NarrowWeights::of(model_->conv1_->weight).getIntrusivePtr();
    output = model_->forward(images_);
  }
  output = torch::Tensor();
  EXPECT_TRUE(copy.expired());
}

/// Operators of this name that any thread runs while it lives.
class OperatorCount {
 public:
  explicit OperatorCount(const char* name) {
    name_of_interest() = name;
    count() = 0;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& record)
                                       -> std::unique_ptr<at::ObserverContext> {
          if (std::string(record.name()) == name_of_interest()) ++count();
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorCount() { at::removeCallback(handle_); }
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;

  int so_far() const { return count(); }

 private:
  static std::string& name_of_interest() {
    static std::string name;
    return name;
  }
  static std::atomic<int>& count() {
    static std::atomic<int> operators{0};
    return operators;
  }

  at::CallbackHandle handle_ = 0;
};

TEST_F(NarrowWeightsCuda, NoWeightIsCastByItself) {
  const auto model = adaact::make_model("resnet20");
  model->to(torch::kCUDA);
  lay_out_channels_last(*model);
  const auto images =
      torch::randn({8, 3, 32, 32}, kOnGpu).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto operators_of_pass = [&](const char* name, Casts casts) {
    passed(*model, images, casts);  // not the first of its kind
    const OperatorCount count(name);
    passed(*model, images, casts);
    return count.so_far();
  };
  const int casts = operators_of_pass("aten::_to_copy", Casts::Together);
  EXPECT_GE(operators_of_pass("aten::_to_copy", Casts::OneByOne), casts + 2 * 20);
  // A gradient that autograd does not take over is copied to such a tensor.
  const int copies = operators_of_pass("aten::new_empty_strided", Casts::Together);
  EXPECT_LE(copies, operators_of_pass("aten::new_empty_strided", Casts::OneByOne));
}

// ---- what is observed

struct Trained {
  Tensors parameters, moments;
  std::vector<std::string> coverage;
};

Trained train(const std::string& name, const std::string& optimizer_name, Casts casts) {
  torch::manual_seed(31);
  auto options = adaact::default_model_options(name);
  options.image_size = name == "lenet5" ? options.image_size : 32;
  options.channels = 3;
  options.classes = 10;
  const auto model = adaact::make_model(name, options);
  model->to(torch::kCUDA);
  const auto optimizer = adaact::make_optimizer(optimizer_name, *model, R"({"lr": 0.01})");
  const auto images =
      torch::randn({16, 3, options.image_size, options.image_size}, torch::kCPU).to(torch::kCUDA);
  const auto labels = torch::arange(16, kOnGpu.dtype(torch::kLong)).remainder(10);
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    torch::cross_entropy_loss(logits_of(*model, images, casts), labels).backward();
    optimizer->step();
  }
  Trained trained;
  for (const auto& parameter : model->parameters()) {
    trained.parameters.push_back(parameter.detach().clone());
  }
  const auto& observing = dynamic_cast<const adaact::ObservingOptimizer&>(*optimizer);
  const auto coverage = observing.coverage();
  for (const auto& each : coverage) {
    trained.coverage.push_back(each.name + (each.observed ? " yes " : " no ") + each.reason);
  }
  if (const auto* adaact = dynamic_cast<const adaact::AdaAct*>(optimizer.get())) {
    const auto parameters = model->named_parameters();
    for (const auto& each : coverage) {
      if (each.observed && parameters[each.name].dim() > 1) {
        trained.moments.push_back(adaact->second_moment(parameters[each.name]).clone());
      }
    }
    EXPECT_FALSE(trained.moments.empty());
  }
  return trained;
}

class NarrowWeightsOfModels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    reproducible_.emplace();
  }
  std::optional<Reproducible> reproducible_;
};

TEST_P(NarrowWeightsOfModels, GiveTheLogitsAndGradientsOfAutocast) {
  for (const bool channels_last : {false, true}) {
    SCOPED_TRACE(channels_last ? "channels last" : "channels first");
    torch::manual_seed(23);
    auto options = adaact::default_model_options(GetParam());
    options.image_size = GetParam() == "lenet5" ? options.image_size : 32;
    options.classes = 10;
    const auto model = adaact::make_model(GetParam(), options);
    model->to(torch::kCUDA);
    auto images =
        torch::randn({8, options.channels, options.image_size, options.image_size}, kOnGpu);
    if (channels_last) {
      lay_out_channels_last(*model);
      images = images.contiguous(torch::MemoryFormat::ChannelsLast);
    }
    const auto expected = passed(*model, images, Casts::OneByOne);
    expect_same_bits(passed(*model, images, Casts::Together), expected);
  }
}

TEST_P(NarrowWeightsOfModels, AreObservedAsTheirParameters) {
  const auto expected = train(GetParam(), "adaact", Casts::OneByOne);
  const auto together = train(GetParam(), "adaact", Casts::Together);
  EXPECT_EQ(together.coverage, expected.coverage);
  expect_same_bits(together.moments, expected.moments);
  expect_same_bits(together.parameters, expected.parameters);
}

INSTANTIATE_TEST_SUITE_P(Models, NarrowWeightsOfModels,
                         ::testing::Values("resnet20", "resnet34", "densenet121", "vit_small",
                                           "lenet5", "mlp"),
                         [](const auto& info) { return info.param; });

TEST_F(NarrowWeightsCuda, FactorsAreMadeOfTheSameUses) {
  for (const auto* optimizer : {"foof", "kfac"}) {
    SCOPED_TRACE(optimizer);
    const auto expected = train("lenet5", optimizer, Casts::OneByOne);
    const auto together = train("lenet5", optimizer, Casts::Together);
    EXPECT_EQ(together.coverage, expected.coverage);
    for (std::size_t i = 0; i < expected.parameters.size(); ++i) {
      EXPECT_TRUE(all_close(together.parameters[i], expected.parameters[i], 1e-4))
          << "parameter " << i;
    }
  }
}

}  // namespace
