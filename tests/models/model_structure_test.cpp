// What the recorded descriptions do not cover: models without one, variants, and refusals.

#include <adaact/models/lenet5.h>
#include <adaact/models/registry.h>
#include <adaact/models/resnet_cifar.h>
#include <adaact/models/vit.h>
#include <adaact/models/weights.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "layers/batch_norm.h"
#include "support/errors.h"
#include "support/tolerance.h"

namespace {

using adaact::default_model_options;
using adaact::make_model;
using adaact::testing::all_close;
using adaact::testing::contains;
using adaact::testing::error_of;

int64_t parameter_count(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

TEST(LeNet5, HasTheKnownShapes) {
  const auto model = make_model("lenet5");
  EXPECT_EQ(parameter_count(*model), 62006);
  const std::vector<std::pair<std::string, std::vector<int64_t>>> expected{
      {"conv1.weight", {6, 3, 5, 5}},  {"conv1.bias", {6}},
      {"conv2.weight", {16, 6, 5, 5}}, {"conv2.bias", {16}},
      {"fc1.weight", {120, 400}},      {"fc1.bias", {120}},
      {"fc2.weight", {84, 120}},       {"fc2.bias", {84}},
      {"fc3.weight", {10, 84}},        {"fc3.bias", {10}}};
  const auto state = adaact::state_tensors(*model);
  ASSERT_EQ(state.size(), expected.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].first, expected[i].first);
    EXPECT_EQ(state[i].second.sizes().vec(), expected[i].second);
  }
}

TEST(LeNet5, ReluComesBeforeOrAfterPoolingItIsTheSame) {
  torch::manual_seed(0);
  auto model = make_model("lenet5");
  const auto p = model->named_parameters();
  const auto images = torch::randn({4, 3, 32, 32});
  auto x = torch::conv2d(images, p["conv1.weight"], p["conv1.bias"]);
  x = torch::max_pool2d(torch::relu(x), 2);
  x = torch::conv2d(x, p["conv2.weight"], p["conv2.bias"]);
  x = torch::max_pool2d(torch::relu(x), 2).flatten(1);
  for (const std::string layer : {"fc1", "fc2", "fc3"}) {
    x = torch::linear(x, p[layer + ".weight"], p[layer + ".bias"]);
    if (layer != "fc3") x = torch::relu(x);
  }
  const auto logits = model->forward(images);
  EXPECT_TRUE(all_close(logits, x, 1e-6));
  const auto parameters = model->parameters();
  const auto expected = torch::autograd::grad({x.square().sum()}, parameters);
  const auto actual = torch::autograd::grad({logits.square().sum()}, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(all_close(actual[i], expected[i], 1e-5)) << "parameter " << i;
  }
}

TEST(LeNet5, SmallImagesAreThoseOf32WithAFrameOfZeros) {
  auto small = std::make_shared<adaact::LeNet5>(1, 28, 10);
  auto large = std::make_shared<adaact::LeNet5>(1, 32, 10);
  {
    const torch::NoGradGuard no_grad;
    const auto from = small->parameters();
    auto to = large->parameters();
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  const auto images = torch::randn({2, 1, 28, 28});
  const auto framed = torch::constant_pad_nd(images, {2, 2, 2, 2});
  EXPECT_TRUE(all_close(small->forward(images), large->forward(framed), 1e-6));
}

TEST(Mlp, HiddenSizesAreChosen) {
  auto options = default_model_options("mlp");
  options.hidden = {20, 30};
  EXPECT_EQ(parameter_count(*make_model("mlp", options)),
            784 * 20 + 20 + 20 * 30 + 30 + 30 * 10 + 10);
  EXPECT_EQ(make_model("mlp", options)->head_name(), "fc3");
  options.hidden.clear();
  const auto regression = make_model("mlp", options);
  EXPECT_EQ(regression->head_name(), "fc1");
  EXPECT_EQ(parameter_count(*regression), 784 * 10 + 10);
}

TEST(ModelsOfOneImageSize, SayWhichImagesTheyExpect) {
  EXPECT_TRUE(contains(error_of([] {
                         make_model("lenet5")->forward(torch::zeros({2, 3, 28, 28}));
                       }),
                       "LeNet5: images have shape [2, 3, 28, 28], expected [N, 3, 32, 32]"));
  EXPECT_TRUE(contains(error_of([] {
                         make_model("mlp")->forward(torch::zeros({2, 784}));
                       }),
                       "Mlp: images have shape [2, 784], expected [N, 1, 28, 28]"));
  EXPECT_TRUE(contains(error_of([] {
                         make_model("vit_small")->forward(torch::zeros({1, 3, 32, 32}));
                       }),
                       "images have shape [1, 3, 32, 32], expected [N, 3, 224, 224]"));
  EXPECT_TRUE(contains(error_of([] { adaact::LeNet5(3, 64, 10); }),
                       "LeNet5: image_size is 64, expected 28 or 32"));
}

TEST(ModelArchitectures, ThatCannotBeBuiltAreErrors) {
  auto resnet = adaact::resnet20_options();
  resnet.blocks.pop_back();
  EXPECT_TRUE(contains(error_of([&] { adaact::ResNetCifar{resnet}; }),
                       "there are 3 widths and 2 numbers of blocks"));
  adaact::VisionTransformerOptions vit;
  vit.heads = 7;
  EXPECT_TRUE(contains(error_of([&] { adaact::VisionTransformer{vit}; }),
                       "width is 384, expected a multiple of heads, 7"));
}

TEST(ResNetWithoutBatchNorm, KeepsEverythingElse) {
  for (const auto* name : {"resnet20", "resnet32"}) {
    auto options = default_model_options(name);
    const auto with = make_model(name, options);
    options.batchnorm = false;
    const auto without = make_model(name, options);
    std::vector<std::string> expected;
    for (const auto& [state_name, tensor] : adaact::state_tensors(*with)) {
      if (state_name.find("bn") == std::string::npos) expected.push_back(state_name);
    }
    std::vector<std::string> actual;
    for (const auto& [state_name, tensor] : adaact::state_tensors(*without)) {
      actual.push_back(state_name);
    }
    EXPECT_EQ(actual, expected) << name;
    EXPECT_TRUE(without->buffers().empty()) << name;
  }
}

TEST(ResNetCifar, OptionASubsamplesAndPadsTheInputOfABlock) {
  const torch::NoGradGuard no_grad;
  auto options = adaact::resnet20_options();
  options.batchnorm = false;
  options.widths = {4, 8};
  options.blocks = {1, 1};
  adaact::ResNetCifar model(options);
  // With only the stem and the head alive, what arrives at the head went through shortcuts alone.
  for (auto& parameter : model.named_parameters()) {
    if (parameter.key().rfind("layer", 0) == 0) parameter.value().zero_();
  }
  auto parameters = model.named_parameters();
  const auto images = torch::rand({2, 3, 8, 8});
  const auto stem = torch::relu(
      torch::conv2d(images, parameters["conv1.weight"], {}, /*stride=*/1, /*padding=*/1));
  auto features = torch::zeros({2, 8});
  features.narrow(1, 2, 4).copy_(
      stem.slice(2, 0, 8, 2).slice(3, 0, 8, 2).flatten(2).mean(/*dim=*/2));
  const auto expected =
      torch::linear(features, parameters["linear.weight"], parameters["linear.bias"]);
  EXPECT_TRUE(all_close(model.forward(images), expected, 1e-6));
}

TEST(BatchNormReluAround, LeavesWhatGoesAroundAsItIs) {
  const auto x = torch::tensor({-1.0F, 2.0F}).view({1, 2, 1, 1});
  torch::nn::BatchNorm2d none(nullptr);
  const auto [onward, around] = adaact::batch_norm_relu_around(none, x);
  EXPECT_TRUE(torch::equal(onward.flatten(), torch::tensor({0.0F, 2.0F})));
  EXPECT_TRUE(torch::equal(around.flatten(), torch::tensor({-1.0F, 2.0F})));
}

}  // namespace
