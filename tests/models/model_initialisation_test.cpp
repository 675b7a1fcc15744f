// How fresh models are drawn: as their authors' or timm's code does.

#include <adaact/models/registry.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using adaact::make_model;

struct Fans {
  double in;
  double out;
};

Fans fans_of(const torch::Tensor& weight) {
  const auto window = weight.dim() > 2 ? static_cast<double>(weight[0][0].numel()) : 1.0;
  return {static_cast<double>(weight.size(1)) * window,
          static_cast<double>(weight.size(0)) * window};
}

double deviation_of(const torch::Tensor& values) {
  return values.detach().to(torch::kFloat64).std().item<double>();
}

/// Five times the error of a deviation estimated from this many values, for normal and for narrower
/// distributions.
void expect_deviation(const torch::Tensor& values, double expected, const std::string& name) {
  const auto error = expected / std::sqrt(2.0 * static_cast<double>(values.numel()));
  EXPECT_NEAR(deviation_of(values), expected, 5 * error) << name;
  const auto mean = values.detach().to(torch::kFloat64).mean().item<double>();
  EXPECT_NEAR(mean, 0.0, 5 * expected / std::sqrt(static_cast<double>(values.numel()))) << name;
}

void expect_uniform(const torch::Tensor& values, double bound, const std::string& name) {
  EXPECT_LE(values.detach().abs().max().item<double>(), bound * (1 + 1e-6)) << name;
  expect_deviation(values, bound / std::sqrt(3.0), name);
}

/// A uniform variable stays within √3 deviations, a normal one does not for long.
bool looks_normal(const torch::Tensor& values) {
  return values.detach().abs().max().item<double>() > 2.5 * deviation_of(values);
}

class ModelInitialisation : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(11); }

  /// Calls `check(name, weight, bias)` for every layer of a kind; the bias may be undefined.
  template <typename Layer, typename Check>
  static void for_each(const torch::nn::Module& model, Check check) {
    int64_t layers = 0;
    for (const auto& item : model.named_modules("", /*include_self=*/false)) {
      if (const auto* layer = item.value()->as<Layer>()) {
        check(item.key(), layer->weight, layer->bias);
        ++layers;
      }
    }
    EXPECT_GT(layers, 0);
  }
};

TEST_F(ModelInitialisation, SmallResNetsAreKaimingNormalOverTheInputs) {
  for (const auto* name : {"resnet20", "resnet32"}) {
    const auto model = make_model(name);
    const auto check = [](const std::string& layer, const torch::Tensor& weight,
                          const torch::Tensor& /*bias*/) {
      expect_deviation(weight, std::sqrt(2.0 / fans_of(weight).in), layer);
      EXPECT_TRUE(looks_normal(weight)) << layer;
    };
    for_each<torch::nn::Conv2d>(*model, check);
    for_each<torch::nn::Linear>(*model, check);
  }
}

TEST_F(ModelInitialisation, OtherSmallModelsAreUniformOverTheInputs) {
  for (const auto* name : {"lenet5", "mlp", "resnet34", "densenet121"}) {
    const auto model = make_model(name);
    const auto check = [](const std::string& layer, const torch::Tensor& weight,
                          const torch::Tensor& bias) {
      const auto bound = 1.0 / std::sqrt(fans_of(weight).in);
      expect_uniform(weight, bound, layer);
      if (!bias.defined()) return;
      EXPECT_LE(bias.detach().abs().max().item<double>(), bound * (1 + 1e-6)) << layer;
      EXPECT_GT(bias.detach().abs().max().item<double>(), 0.0) << layer;
    };
    for_each<torch::nn::Linear>(*model, check);
    if (std::string(name) != "mlp") for_each<torch::nn::Conv2d>(*model, check);
  }
}

TEST_F(ModelInitialisation, LargeResNetsAreKaimingNormalOverTheOutputs) {
  const auto model = make_model("resnet50");
  for_each<torch::nn::Conv2d>(
      *model, [](const std::string& layer, const torch::Tensor& weight, const torch::Tensor& bias) {
        EXPECT_FALSE(bias.defined());
        expect_deviation(weight, std::sqrt(2.0 / fans_of(weight).out), layer);
        EXPECT_TRUE(looks_normal(weight)) << layer;
      });
  for_each<torch::nn::Linear>(*model, [](const std::string& layer, const torch::Tensor& weight,
                                         const torch::Tensor& /*bias*/) {
    expect_uniform(weight, 1.0 / std::sqrt(fans_of(weight).in), layer);
  });
}

TEST_F(ModelInitialisation, LargeResNetsStartWithBlocksThatAreTheIdentity) {
  const auto model = make_model("resnet50");
  for_each<torch::nn::BatchNorm2d>(*model, [](const std::string& layer, const torch::Tensor& weight,
                                              const torch::Tensor& bias) {
    const bool last_of_block = layer.find("bn3") != std::string::npos;
    EXPECT_TRUE(torch::equal(weight, torch::full_like(weight, last_of_block ? 0.0 : 1.0))) << layer;
    EXPECT_TRUE(torch::equal(bias, torch::zeros_like(bias))) << layer;
  });
}

TEST_F(ModelInitialisation, VisionTransformersAreNormalWithTheDeviationOfTimm) {
  const auto model = make_model("vit_small");
  for_each<torch::nn::Linear>(
      *model, [](const std::string& layer, const torch::Tensor& weight, const torch::Tensor& bias) {
        expect_deviation(weight, 0.02, layer);
        EXPECT_TRUE(looks_normal(weight)) << layer;
        EXPECT_TRUE(torch::equal(bias, torch::zeros_like(bias))) << layer;
      });
  for_each<torch::nn::LayerNorm>(
      *model, [](const std::string& layer, const torch::Tensor& weight, const torch::Tensor& bias) {
        EXPECT_TRUE(torch::equal(weight, torch::ones_like(weight))) << layer;
        EXPECT_TRUE(torch::equal(bias, torch::zeros_like(bias))) << layer;
      });
  const auto parameters = model->named_parameters();
  expect_deviation(parameters["pos_embed"], 0.02, "pos_embed");
  expect_deviation(parameters["cls_token"], 1e-6, "cls_token");
  expect_uniform(parameters["patch_embed.proj.weight"], 1.0 / std::sqrt(3 * 16 * 16), "patches");
}

TEST_F(ModelInitialisation, TheSameSeedGivesTheSameModel) {
  for (const auto* name : {"lenet5", "resnet20"}) {
    torch::manual_seed(7);
    const auto first = make_model(name)->parameters();
    torch::manual_seed(7);
    const auto second = make_model(name)->parameters();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i]));
  }
}

}  // namespace
