#include <adaact/moments/moments.h>
#include <adaact/observe/observer.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "observe/recording_listener.h"
#include "support/errors.h"
#include "support/libtorch.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::LayerMap;
using adaact::NamedTensors;

namespace F = torch::nn::functional;

TEST(Observer, SequentialModelSeesEveryLayerOnceWithItsInput) {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 4, 3), torch::nn::ReLU(), torch::nn::Flatten(),
                              torch::nn::Linear(4 * 6 * 6, 5));
  Watch watch(*model);
  const auto x = torch::randn({2, 3, 8, 8});
  model->forward(x).sum().backward();
  ASSERT_EQ(watch.weights(), (Names{"0.weight", "3.weight"}));
  EXPECT_TRUE(bit_identical(watch.inputs()[0].input, x));
  EXPECT_EQ(watch.inputs()[1].input.sizes(), (std::vector<int64_t>{2, 144}));
  watch.observer.rethrow_failure();
}

TEST(Observer, LinearSeesAnyLeadingDimensionsWithAndWithoutBias) {
  for (const bool bias : {true, false}) {
    torch::nn::Linear model(torch::nn::LinearOptions(4, 3).bias(bias));
    Watch watch(*model);
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{4}, {5, 4}, {2, 5, 4}, {2, 3, 5, 4}}) {
      model->forward(torch::randn(shape));
      ASSERT_FALSE(watch.inputs().empty());
      EXPECT_EQ(watch.inputs().back().input.sizes(), shape);
    }
    EXPECT_EQ(watch.inputs().size(), 4U);
  }
}

/// The convolution's output must equal its weight times the patches of what was observed: true only
/// if input, geometry and groups are all right.
void expect_patches_explain_output(const Watch& watch, const torch::Tensor& weight,
                                   const torch::Tensor& output) {
  ASSERT_EQ(watch.inputs().size(), 1U);
  const auto& [use, input] = watch.inputs()[0];
  const auto groups = use.geometry.groups;
  const auto patches = adaact::patch_matrix(input, use.geometry);         // (g, N·P, n)
  const auto w = weight.detach().reshape({groups, -1, patches.size(2)});  // (g, rows/g, n)
  const auto product = patches.matmul(w.transpose(1, 2));                 // (g, N·P, rows/g)
  const auto expected = output.detach().flatten(2).transpose(1, 2).flatten(0, 1);  // (N·P, rows)
  EXPECT_TRUE(all_close(product.permute({1, 0, 2}).flatten(1), expected, 1e-12));
}

struct ConvolutionCase {
  const char* name;
  torch::nn::Conv2dOptions options;
};

class Convolution2d : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(Convolution2d, PatchesOfTheObservedInputExplainTheOutput) {
  torch::nn::Conv2d model(torch::nn::Conv2dOptions(GetParam().options).bias(false));
  model->to(torch::kFloat64);
  Watch watch(*model);
  const auto output = model->forward(torch::randn({2, 4, 9, 7}, torch::kFloat64));
  watch.observer.rethrow_failure();
  expect_patches_explain_output(watch, model->weight, output);
}

torch::nn::Conv2dOptions conv(at::IntArrayRef kernel) {
  return torch::nn::Conv2dOptions(4, 8, {kernel[0], kernel[1]});
}

INSTANTIATE_TEST_SUITE_P(
    Observer, Convolution2d,
    ::testing::Values(
        ConvolutionCase{"Plain", conv({3, 3})},
        ConvolutionCase{"Stride", conv({3, 2}).stride({2, 1})},
        ConvolutionCase{"Padding", conv({3, 3}).padding({2, 1})},
        ConvolutionCase{"Dilation", conv({3, 2}).dilation({2, 3})},
        ConvolutionCase{"Same", conv({3, 4}).padding(torch::kSame).dilation({1, 1})},
        ConvolutionCase{"SameDilated", conv({3, 2}).padding(torch::kSame).dilation(2)},
        ConvolutionCase{"Valid", conv({3, 3}).padding(torch::kValid)},
        ConvolutionCase{"Circular", conv({3, 3}).padding(1).padding_mode(torch::kCircular)},
        ConvolutionCase{"Reflect", conv({3, 3}).padding(1).padding_mode(torch::kReflect)},
        ConvolutionCase{"Replicate", conv({3, 3}).padding(2).padding_mode(torch::kReplicate)},
        ConvolutionCase{"Groups", conv({3, 3}).groups(2).padding(1)},
        ConvolutionCase{"Depthwise", conv({3, 3}).groups(4).stride(2)}),
    [](const auto& info) { return info.param.name; });

TEST(Observer, Conv1dAndConv3dAreObserved) {
  torch::nn::Conv1d conv1d(
      torch::nn::Conv1dOptions(4, 6, 3).stride(2).padding(1).groups(2).bias(false));
  conv1d->to(torch::kFloat64);
  Watch watch1(*conv1d);
  const auto output1 = conv1d->forward(torch::randn({3, 4, 10}, torch::kFloat64));
  expect_patches_explain_output(watch1, conv1d->weight, output1);

  torch::nn::Conv3d conv3d(
      torch::nn::Conv3dOptions(2, 4, {2, 3, 2}).dilation({1, 2, 1}).bias(false));
  conv3d->to(torch::kFloat64);
  Watch watch3(*conv3d);
  const auto output3 = conv3d->forward(torch::randn({2, 2, 4, 7, 5}, torch::kFloat64));
  expect_patches_explain_output(watch3, conv3d->weight, output3);
}

TEST(Observer, UnbatchedConvolutionIsObserved) {
  torch::nn::Conv2d model(3, 4, 3);
  Watch watch(*model);
  torch::conv2d(torch::randn({3, 6, 6}), model->weight, model->bias);
  ASSERT_EQ(watch.inputs().size(), 1U);
  EXPECT_EQ(adaact::second_moment(watch.inputs()[0].input, watch.inputs()[0].use.geometry).count,
            16);
}

struct FunctionalImpl : torch::nn::Module {
  FunctionalImpl() {
    w = register_parameter("w", torch::randn({3, 4}));
    b = register_parameter("b", torch::randn({3}));
    kernel = register_parameter("kernel", torch::randn({4, 2, 3, 3}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::linear(torch::conv2d(x, kernel).mean({2, 3}), w, b);
  }
  torch::Tensor w, b, kernel;
};
TORCH_MODULE(Functional);

TEST(Observer, FunctionalCallsInAUsersForwardAreObservedWithTheirBias) {
  Functional model;
  Watch watch(*model);
  model->forward(torch::randn({2, 2, 5, 5}));
  ASSERT_EQ(watch.weights(), (Names{"kernel", "w"}));
  const auto bias = watch.inputs()[1].use.bias;
  ASSERT_TRUE(bias);
  EXPECT_EQ(watch.observer.map().parameters()[*bias].name, "b");
}

TEST(Observer, DirectConvolutionAndMmAreObserved) {
  const auto kernel = torch::randn({4, 2, 3}).requires_grad_();
  const auto w = torch::randn({3, 4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"kernel", kernel}, {"w", w}}));
  at::convolution(torch::randn({2, 2, 5}), kernel, {}, {1}, {0}, {1}, false, {0}, 1);
  torch::mm(torch::randn({5, 4}), w.t());
  EXPECT_EQ(watch.weights(), (Names{"kernel", "w"}));
}

TEST(Observer, WeightUsedTwiceIsSeenTwice) {
  torch::nn::Linear model(4, 4);
  Watch watch(*model);
  model->forward(model->forward(torch::randn({2, 4})));
  EXPECT_EQ(watch.inputs().size(), 2U);
}

TEST(Observer, CpuAutocastSeesTheOriginalWeightOnce) {
  torch::nn::Sequential model(torch::nn::Conv2d(2, 3, 3), torch::nn::Flatten(),
                              torch::nn::Linear(27, 4));
  Watch watch(*model);
  const auto x = torch::randn({2, 2, 5, 5});
  {
    const CpuAutocast autocast;
    EXPECT_EQ(model->forward(x).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(watch.weights(), (Names{"0.weight", "2.weight"}));
  EXPECT_TRUE(bit_identical(watch.inputs()[0].input, x));
}

/// Runs a linear layer without recording it and again, recorded, in the backward pass.
struct CheckpointedLinear : torch::autograd::Function<CheckpointedLinear> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& w) {
    context->save_for_backward({x, w});
    return torch::linear(x, w);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto x = saved[0].detach().requires_grad_();
    const torch::AutoGradMode recompute(true);
    const auto y = torch::linear(x, saved[1]);
    const auto input_gradients = torch::autograd::grad({y}, {x, saved[1]}, {gradients[0]});
    return {input_gradients[0], input_gradients[1]};
  }
};

TEST(Observer, CheckpointedLayerIsSeenOnceWhenRecomputed) {
  const auto w = torch::randn({3, 4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}}));
  const auto y = CheckpointedLinear::apply(torch::randn({2, 4}).requires_grad_(), w);
  EXPECT_EQ(watch.inputs().size(), 0U);
  y.sum().backward();
  EXPECT_EQ(watch.inputs().size(), 1U);
}

TEST(Observer, ModelMovedToAnotherDtypeIsStillObserved) {
  torch::nn::Sequential model(torch::nn::Linear(4, 3), torch::nn::Linear(3, 4));
  Watch watch(*model);
  model->to(torch::kFloat64);
  model->forward(torch::randn({2, 4}, torch::kFloat64));
  EXPECT_EQ(watch.weights(), (Names{"0.weight", "1.weight"}));
}

TEST(Observer, ParametersInOneFlatBufferAreToldApart) {
  auto flat = torch::randn({24});
  const auto first = flat.narrow(0, 0, 12).view({3, 4}).requires_grad_();
  const auto second = flat.narrow(0, 12, 12).view({4, 3}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"first", first}, {"second", second}}));
  F::linear(F::linear(torch::randn({2, 4}), first), second);
  EXPECT_EQ(watch.weights(), (Names{"first", "second"}));
}

// What is not to be observed.

TEST(Observer, WithoutGradientsOrInEvaluationOrPausedSeesNothing) {
  torch::nn::Sequential model(torch::nn::Linear(4, 3));
  Watch watch(*model);
  const auto x = torch::randn({2, 4});
  {
    const torch::NoGradGuard no_grad;
    model->forward(x);
  }
  model->eval();
  model->forward(x);
  model->train();
  {
    const auto pause = watch.observer.pause();
    const auto nested = watch.observer.pause();
    model->forward(x);
  }
  EXPECT_EQ(watch.inputs().size(), 0U);
  model->forward(x);
  EXPECT_EQ(watch.inputs().size(), 1U);
}

TEST(Observer, OneLayerInEvaluationModeIsTheOnlyOneLeftOut) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  Watch watch(*model);
  model[0]->eval();
  model->forward(torch::randn({2, 4}));
  EXPECT_EQ(watch.weights(), Names{"1.weight"});
}

TEST(Observer, AProductOfParametersIsNoLayer) {
  const auto w = torch::randn({4, 4}).requires_grad_();
  const auto u = torch::randn({3, 4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}, {"u", u}}));
  w.matmul(w.t());                               // of an orthogonality penalty
  F::linear(w, w);                               //
  torch::mm(w.detach(), w.t());                  // half of it held fixed
  torch::mm(w.t(), w.t());                       // a view of the parameter
  torch::mm(2.0 * w - w.pow(3), w.t());          // made of it
  torch::mm(w / w.norm(), w.t());                //
  torch::mm(torch::cat({u, w}), w.t());          // of several
  F::linear(torch::randn({2, 4}), u.mm(w.t()));  // a weight of two factors
  EXPECT_EQ(watch.weights(), Names());
}

TEST(Observer, WhatAParameterHasPartInIsAnActivation) {
  const auto w = torch::randn({4, 4}).requires_grad_();
  const auto table = torch::randn({5, 4}).requires_grad_();
  const auto gain = torch::randn({4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}, {"table", table}, {"gain", gain}}));
  const auto x = torch::randn({2, 4});
  const auto indices = torch::tensor({1, 3});
  F::linear(x * gain, w);                                        // data, scaled
  F::linear(F::linear(x, w), w);                                 // a layer's output
  F::linear(F::embedding(indices, table), w);                    // rows chosen by data
  F::linear(table.index_select(0, indices), w);                  //
  F::linear(x.detach().clone().requires_grad_(), w);             // data that takes a gradient
  F::linear(torch::dropout(gain.expand({2, 4}), 0.5, true), w);  // drawn at random
  EXPECT_EQ(watch.weights(), Names(7, "w"));
}

TEST(Observer, AWeightReadThroughAViewOfOtherDimensionsIsSeen) {
  const auto conv = torch::randn({4, 2, 3, 3}).requires_grad_();
  const auto linear = torch::randn({5, 3}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"conv", conv}, {"linear", linear}}));
  torch::conv2d(torch::randn({1, 2, 5, 5}), conv);
  F::linear(torch::randn({2, 18}), conv.view({4, 18}));
  torch::mm(torch::randn({2, 18}), conv.flatten(1).narrow(0, 1, 2).t());
  torch::conv2d(torch::randn({1, 3, 2, 2}), linear.view({5, 3, 1, 1}));
  ASSERT_EQ(watch.weights(), (Names{"conv", "conv", "conv", "linear"}));
  EXPECT_EQ(watch.inputs()[2].use.row_begin, 1);
  EXPECT_EQ(watch.inputs()[2].use.row_end, 3);
  F::linear(torch::randn({2, 9}), conv.view({8, 9}));  // its rows are not the parameter's
  EXPECT_EQ(watch.inputs().size(), 4U);
}

TEST(Observer, ASliceWithoutRowsIsNoUse) {
  const auto w = torch::randn({4, 3}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}}));
  F::linear(torch::randn({2, 3}), w.narrow(0, 0, 0));
  F::linear(torch::randn({2, 3}), w.narrow(0, 4, 0));
  EXPECT_EQ(watch.inputs().size(), 0U);
}

struct SharedWeightImpl : torch::nn::Module {
  explicit SharedWeightImpl(const torch::Tensor& shared)
      : weight(register_parameter("weight", shared)) {}
  torch::Tensor forward(const torch::Tensor& x) { return F::linear(x, weight); }
  torch::Tensor weight;
};
TORCH_MODULE(SharedWeight);

TEST(Observer, OfTiedLayersOneInTrainingIsEnough) {
  torch::nn::Linear first(4, 4);
  SharedWeight second(first->weight);
  torch::nn::Sequential model(first, second);
  Watch watch(*model);
  first->eval();
  second->forward(torch::randn({2, 4}));
  EXPECT_EQ(watch.inputs().size(), 1U);
  second->eval();
  second->forward(torch::randn({2, 4}));
  EXPECT_EQ(watch.inputs().size(), 1U);
}

TEST(Observer, AnotherModelOnTheSameMemoryIsNotThisOne) {
  torch::nn::Linear observed(4, 4);
  torch::nn::Linear other(4, 4);
  other->weight.set_data(observed->weight.detach());
  Watch watch(*observed);
  other->forward(torch::randn({2, 4}));
  other->eval();
  other->forward(torch::randn({2, 4}));
  other->weight.set_requires_grad(false);
  other->forward(torch::randn({2, 4}));
  EXPECT_EQ(watch.inputs().size(), 0U);
  observed->forward(torch::randn({2, 4}));
  EXPECT_EQ(watch.inputs().size(), 1U);
}

TEST(Observer, SquareWeightMultipliedUntransposedIsNoLayer) {
  const auto w = torch::randn({4, 4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}}));
  const auto x = torch::randn({2, 4});
  x.matmul(w).sum().backward();
  torch::addmm(torch::zeros({4}), x, w);
  torch::mm(w, w);
  torch::matmul(w, x.t());
  EXPECT_EQ(watch.inputs().size(), 0U);
  x.matmul(w.t());
  EXPECT_EQ(watch.inputs().size(), 1U);
}

TEST(Observer, ScaledProductIsNoLayer) {
  const auto w = torch::randn({3, 4}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}}));
  torch::addmm(torch::zeros({3}), torch::randn({2, 4}), w.t(), /*beta=*/1, /*alpha=*/2);
  EXPECT_EQ(watch.inputs().size(), 0U);
}

TEST(Observer, SeveralBackwardPassesThatAreRecordedAreNoLayers) {
  const auto w = torch::randn({4, 4}, torch::kFloat64).requires_grad_();
  const auto kernel = torch::randn({4, 4, 3}, torch::kFloat64).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"w", w}, {"kernel", kernel}}));
  const auto x = torch::randn({2, 4, 6}, torch::kFloat64).requires_grad_();
  const auto y = torch::linear(torch::conv1d(x, kernel).mean(2), w).pow(3).sum();
  const auto first = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
  const auto second =
      torch::autograd::grad({first.pow(2).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  second.pow(2).sum().backward();
  EXPECT_EQ(watch.weights(), (Names{"kernel", "w"}));
}

TEST(Observer, RecurrentCellsAndTransposedConvolutionsAreNoLayers) {
  torch::nn::LSTM lstm(4, 3);
  torch::nn::GRU gru(4, 3);
  torch::nn::RNN rnn(4, 3);
  torch::nn::LSTMCell lstm_cell(4, 3);
  torch::nn::GRUCell gru_cell(4, 3);
  torch::nn::RNNCell rnn_cell(4, 3);
  torch::nn::ConvTranspose2d transposed(4, 3, 3);
  NamedTensors all;
  int module_number = 0;
  for (torch::nn::Module* module : std::initializer_list<torch::nn::Module*>{
           lstm.get(), gru.get(), rnn.get(), lstm_cell.get(), gru_cell.get(), rnn_cell.get(),
           transposed.get()}) {
    for (const auto& parameter : module->named_parameters()) {
      all.emplace_back(std::to_string(module_number) + "." + parameter.key(), parameter.value());
    }
    ++module_number;
  }
  Watch watch{LayerMap(all)};
  const auto sequence = torch::randn({5, 2, 4});
  lstm->forward(sequence);
  gru->forward(sequence);
  rnn->forward(sequence);
  lstm_cell->forward(sequence[0]);
  gru_cell->forward(sequence[0]);
  rnn_cell->forward(sequence[0]);
  transposed->forward(torch::randn({2, 4, 5, 5}));
  EXPECT_EQ(watch.weights(), Names{});
}

TEST(Observer, ParametrisedWeightIsNoLayer) {
  const auto direction = torch::randn({3, 4}).requires_grad_();
  const auto length = torch::randn({3, 1}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"direction", direction}, {"length", length}}));
  torch::linear(torch::randn({2, 4}), direction * length / direction.norm());
  torch::linear(torch::randn({2, 2}), direction.view({6, 2}));       // other features
  torch::linear(torch::randn({2, 3}), direction.narrow(1, 0, 3));    // some columns
  torch::linear(torch::randn({2, 4}), direction.slice(0, 0, 3, 2));  // every other row
  EXPECT_EQ(watch.weights(), Names{});
}

TEST(Observer, WeightThatAddmmAddsToIsNoBias) {
  const auto base = torch::randn({3, 3}).requires_grad_();
  const auto low_rank = torch::randn({3, 3}).requires_grad_();
  Watch watch(LayerMap(NamedTensors{{"base", base}, {"low_rank", low_rank}}));
  torch::addmm(base, torch::randn({3, 3}), low_rank.t());
  ASSERT_EQ(watch.weights(), Names{"low_rank"});
  EXPECT_FALSE(watch.inputs()[0].use.bias);
}

// Packed projections.

struct Rows {
  int64_t begin, end;
  bool operator==(const Rows& other) const { return begin == other.begin && end == other.end; }
};

std::vector<Rows> packed_rows(const Watch& watch) {
  std::vector<Rows> rows;
  for (const auto& seen : watch.inputs()) {
    if (watch.observer.map().parameters()[seen.use.weight].name == "in_proj_weight") {
      rows.push_back({seen.use.row_begin, seen.use.row_end});
    }
  }
  return rows;
}

TEST(Observer, MultiheadAttentionTellsRowSlicesApart) {
  torch::nn::MultiheadAttention model(torch::nn::MultiheadAttentionOptions(8, 2));
  const auto q = torch::randn({5, 2, 8});
  const auto k = torch::randn({4, 2, 8});
  const auto v = torch::randn({4, 2, 8});
  {
    Watch watch(*model);
    model->forward(q, q, q);
    EXPECT_EQ(packed_rows(watch), (std::vector<Rows>{{0, 24}}));
    EXPECT_EQ(watch.weights(), (Names{"in_proj_weight", "out_proj.weight"}));
  }
  {
    Watch watch(*model);
    model->forward(q, k, k);
    EXPECT_EQ(packed_rows(watch), (std::vector<Rows>{{0, 8}, {8, 24}}));
    EXPECT_TRUE(bit_identical(watch.inputs()[0].input, q));
    EXPECT_TRUE(bit_identical(watch.inputs()[1].input, k));
  }
  {
    Watch watch(*model);
    model->forward(q, k, v);
    EXPECT_EQ(packed_rows(watch), (std::vector<Rows>{{0, 8}, {8, 16}, {16, 24}}));
  }
}

TEST(Observer, MultiheadAttentionWithSeparateProjectionsIsObserved) {
  torch::nn::MultiheadAttention model(torch::nn::MultiheadAttentionOptions(8, 2).kdim(6).vdim(6));
  Watch watch(*model);
  const auto memory = torch::randn({4, 2, 6});
  model->forward(torch::randn({5, 2, 8}), memory, memory);
  EXPECT_EQ(watch.weights(),
            (Names{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"}));
  for (const auto& seen : watch.inputs()) {
    EXPECT_TRUE(watch.observer.map().parameters()[seen.use.weight].is_layer_weight);
  }
}

// Output gradients, explicit observation, failures.

TEST(Observer, OutputGradientIsWhatAutogradComputes) {
  torch::nn::Sequential model(torch::nn::Linear(4, 3),
                              torch::nn::ReLU(torch::nn::ReLUOptions(true)),
                              torch::nn::Linear(3, 2));
  model->to(torch::kFloat64);
  Watch watch(*model);
  const auto x = torch::randn({5, 4}, torch::kFloat64);
  model->forward(x).pow(2).sum().backward();
  ASSERT_EQ(watch.listener->gradients.size(), 2U);
  // G = Σ s aᵀ ties the output gradient s to input a and weight gradient.
  const auto& last = watch.listener->gradients[0];
  const auto& first = watch.listener->gradients[1];
  EXPECT_EQ(first.use.weight, 0U);
  EXPECT_TRUE(all_close(first.input.t().matmul(x), model->parameters()[0].grad(), 1e-12));
  EXPECT_TRUE(all_close(last.input.t().matmul(watch.inputs()[1].input),
                        model->parameters()[2].grad(), 1e-12));
}

TEST(Observer, OutputGradientsComeInPassesThatMakeTheGradientOfTheWeight) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  const auto x = torch::randn({5, 4}).requires_grad_();
  const auto z = model->forward(x).sum();
  const auto count = [&] { return watch.listener->gradients.size(); };
  torch::autograd::grad({z}, {x}, {}, /*retain_graph=*/true);
  z.backward({}, /*retain_graph=*/true, false, std::vector<torch::Tensor>{x});
  EXPECT_EQ(count(), 0U);
  torch::autograd::grad({z}, {model->weight}, {}, /*retain_graph=*/true);
  EXPECT_EQ(count(), 1U);
  EXPECT_FALSE(watch.listener->passes[0].is_added);
  z.backward({}, /*retain_graph=*/true, false, std::vector<torch::Tensor>{model->weight});
  z.backward();
  ASSERT_EQ(count(), 3U);
  EXPECT_TRUE(watch.listener->passes[1].is_added);
  EXPECT_TRUE(watch.listener->passes[1].graph_is_kept);
  EXPECT_TRUE(watch.listener->passes[2].is_added);
  EXPECT_FALSE(watch.listener->passes[2].graph_is_kept);
}

TEST(Observer, ADetachedWeightIsNoUse) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  const auto x = torch::randn({5, 4}).requires_grad_();
  torch::linear(x, model->weight.detach()).sum().backward();
  EXPECT_EQ(watch.inputs().size(), 0U);
  EXPECT_EQ(watch.listener->unrecorded.size(), 0U);
  EXPECT_EQ(watch.listener->gradients.size(), 0U);
}

TEST(Observer, ExplicitObservationFollowsTheSameConditions) {
  torch::nn::Linear model(4, 3);
  Watch watch(*model);
  const auto x = torch::randn({2, 4});
  watch.observer.observe(model->weight, x, adaact::Geometry::linear());
  model->eval();
  watch.observer.observe(model->weight, x, adaact::Geometry::linear());
  EXPECT_EQ(watch.inputs().size(), 1U);
  EXPECT_TRUE(contains(error_of([&] { watch.observer.observe(x, x, adaact::Geometry::linear()); }),
                       "no parameter"));
}

struct ThrowingListener : adaact::Listener {
  void on_input(const adaact::LayerUse& /*use*/, const torch::Tensor& /*input*/) override {
    throw std::runtime_error("the listener failed");
  }
};

TEST(Observer, ListenerThatThrowsSurfacesOnceAndDoesNotDisturbTheForward) {
  torch::nn::Linear model(4, 3);
  WarningCapture warnings;
  adaact::Observer observer(LayerMap(*model), std::make_shared<ThrowingListener>());
  const auto y = model->forward(torch::randn({2, 4}));
  EXPECT_EQ(y.size(1), 3);
  EXPECT_TRUE(contains(error_of([&] { observer.rethrow_failure(); }), "the listener failed"));
  observer.rethrow_failure();
  EXPECT_TRUE(warnings.messages.empty());
}

TEST(Observer, OperatorThatFailsIsNoObservation) {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 4, 3), torch::nn::Linear(4, 2));
  Watch watch(*model);
  EXPECT_ANY_THROW(torch::conv2d(torch::randn({2, 5, 8, 8}), model->parameters()[0]));
  EXPECT_ANY_THROW(
      torch::conv2d(torch::randn({2, 3, 8, 8}), model->parameters()[0], {}, {1, 1, 1}));
  EXPECT_ANY_THROW(torch::linear(torch::randn({2, 5}), model->parameters()[2]));
  EXPECT_EQ(watch.inputs().size(), 0U);
  watch.observer.rethrow_failure();
}

TEST(Observer, ThreadWithoutOperatorRecordsIsRefusedWithAReason) {
  torch::nn::Linear model(4, 3);
  const at::RecordFunctionGuard disabled(/*is_enabled=*/false);
  EXPECT_TRUE(contains(error_of([&] { Watch watch(*model); }), "cannot observe its layers"));
}

TEST(Observer, DoubleAsDefaultDtypePassesTheSelfCheck) {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::nn::Linear model(4, 3);
  EXPECT_NO_THROW(Watch watch(*model));
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
}

TEST(Observer, DestroyedObserverSeesNothingMore) {
  torch::nn::Linear model(4, 3);
  auto watch = std::make_unique<Watch>(*model);
  const auto listener = watch->listener;
  watch.reset();
  model->forward(torch::randn({2, 4}));
  EXPECT_EQ(listener->inputs.size(), 0U);
}

TEST(Observer, TwoObserversOfSharedAndOwnParametersSeeTheirOwn) {
  torch::nn::Linear shared(4, 4);
  torch::nn::Linear own(4, 4);
  torch::nn::Sequential both(shared, own);
  Watch first(*shared);
  Watch second(*both);
  both->forward(torch::randn({2, 4}));
  EXPECT_EQ(first.inputs().size(), 1U);
  EXPECT_EQ(second.inputs().size(), 2U);
}

}  // namespace
