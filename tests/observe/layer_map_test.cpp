#include <adaact/observe/layer_map.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"

namespace {

using adaact::LayerKind;
using adaact::LayerMap;
using adaact::testing::contains;
using adaact::testing::error_of;

std::vector<std::string> names_of(const LayerMap& map) {
  std::vector<std::string> names;
  for (const auto& parameter : map.parameters()) names.push_back(parameter.name);
  return names;
}

LayerKind kind_of(const LayerMap& map, const std::string& layer_name) {
  for (const auto& layer : map.layers()) {
    if (layer.name == layer_name) return layer.kind;
  }
  ADD_FAILURE() << "no layer '" << layer_name << "'";
  return LayerKind::Other;
}

TEST(LayerMap, NestedModelListsParametersAsLibTorchNamesThem) {
  torch::nn::ModuleList block(torch::nn::Conv2d(3, 4, 3), torch::nn::BatchNorm2d(4));
  torch::nn::ModuleList model(block, torch::nn::Linear(4, 2));
  const LayerMap map(*model);
  EXPECT_EQ(names_of(map), model->named_parameters().keys());
  EXPECT_EQ(kind_of(map, "0.0"), LayerKind::Convolution);
  EXPECT_EQ(kind_of(map, "0.1"), LayerKind::Normalization);
  EXPECT_EQ(kind_of(map, "1"), LayerKind::Linear);
}

TEST(LayerMap, KnowsWhatCannotBeObserved) {
  torch::nn::ModuleList model(torch::nn::ConvTranspose2d(3, 4, 3), torch::nn::Embedding(5, 4),
                              torch::nn::LSTM(4, 4), torch::nn::GRUCell(4, 4),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
  const LayerMap map(*model);
  EXPECT_EQ(kind_of(map, "0"), LayerKind::TransposedConvolution);
  EXPECT_EQ(kind_of(map, "1"), LayerKind::Embedding);
  EXPECT_EQ(kind_of(map, "2"), LayerKind::Recurrent);
  EXPECT_EQ(kind_of(map, "3"), LayerKind::Recurrent);
  EXPECT_EQ(kind_of(map, "4"), LayerKind::Normalization);
  for (const auto& parameter : map.parameters()) EXPECT_FALSE(parameter.is_layer_weight);
}

TEST(LayerMap, RootThatIsALayerItselfHasAnEmptyName) {
  torch::nn::Linear model(3, 2);
  const LayerMap map(*model);
  ASSERT_EQ(map.layers().size(), 1U);
  EXPECT_EQ(map.layers()[0].name, "");
  EXPECT_EQ(names_of(map), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(map.parameters()[0].biases, std::vector<std::size_t>{1});
}

TEST(LayerMap, RootOnTheStackIsWalked) {
  torch::nn::LinearImpl model(3, 2);
  const LayerMap map(model);
  EXPECT_EQ(names_of(map), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(map.layers()[0].module.lock(), nullptr);
}

struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    head = torch::nn::Linear(3, 5);
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3)._weight(head->weight)));
    register_module("head", head);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Tied);

TEST(LayerMap, TiedWeightIsListedOnceAndBelongsToTheLayerWithAnInput) {
  Tied model;
  const LayerMap map(*model);
  EXPECT_EQ(names_of(map), (std::vector<std::string>{"embedding.weight", "head.bias"}));
  const auto& weight = map.parameters()[0];
  EXPECT_TRUE(weight.is_layer_weight);
  EXPECT_EQ(map.layers()[weight.layer].name, "head");
  EXPECT_EQ(weight.biases, std::vector<std::size_t>{1});
}

TEST(LayerMap, MultiheadAttentionPairsPackedWeightWithPackedBias) {
  torch::nn::MultiheadAttention model(torch::nn::MultiheadAttentionOptions(8, 2));
  const LayerMap map(*model);
  const auto names = names_of(map);
  for (const auto& parameter : map.parameters()) {
    if (parameter.name != "in_proj_weight") continue;
    EXPECT_TRUE(parameter.is_layer_weight);
    ASSERT_EQ(parameter.biases.size(), 1U);
    EXPECT_EQ(names[parameter.biases[0]], "in_proj_bias");
  }
}

TEST(LayerMap, NamedParametersArePairedByName) {
  const LayerMap map(adaact::NamedTensors{{"fc.weight", torch::ones({2, 3})},
                                          {"fc.bias", torch::ones({2})},
                                          {"scale", torch::ones({1})}});
  EXPECT_EQ(map.parameters()[0].biases, std::vector<std::size_t>{1});
  EXPECT_EQ(map.layers().size(), 2U);
}

TEST(LayerMap, NamedParametersRejectsDoubleAndUndefined) {
  const auto twice = error_of([] {
    LayerMap(adaact::NamedTensors{{"a", torch::ones({1})}, {"a", torch::ones({1})}});
  });
  EXPECT_TRUE(contains(twice, "'a'"));
  const auto undefined = error_of([] { LayerMap(adaact::NamedTensors{{"b", torch::Tensor()}}); });
  EXPECT_TRUE(contains(undefined, "'b'"));
}

TEST(LayerMap, DescribedLayersHaveTheKindsAndFlagsTheyAreGiven) {
  bool is_training = true;
  const auto tied = torch::ones({4, 3});
  const LayerMap map(std::vector<adaact::DescribedLayer>{
      {"embedding", LayerKind::Embedding, {{"weight", tied}}, nullptr},
      {"head", LayerKind::Linear, {{"weight", tied}, {"bias", torch::ones({4})}}, [&is_training] {
         return is_training;
       }}});
  EXPECT_EQ(names_of(map), (std::vector<std::string>{"embedding.weight", "head.bias"}));
  EXPECT_EQ(map.layers()[map.parameters()[0].layer].name, "head");
  EXPECT_EQ(map.parameters()[0].biases, std::vector<std::size_t>{1});
  EXPECT_TRUE(map.layers()[0].is_training());
  EXPECT_TRUE(map.layers()[1].is_training());
  is_training = false;
  EXPECT_FALSE(map.layers()[1].is_training());
}

}  // namespace
