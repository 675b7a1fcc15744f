// The models under the conditions in which they are trained.

#include <set>

#include <adaact/adaact.h>
#include <adaact/models/registry.h>
#include <gtest/gtest.h>

#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::make_model;
using adaact::ModelOptions;
using adaact::testing::all_close;
using adaact::testing::Batch;
using adaact::testing::CpuAutocast;
using adaact::testing::cross_entropy;
using adaact::testing::relative_error;
using adaact::testing::train_step;
using adaact::testing::WarningCapture;
using ModelPointer = std::shared_ptr<adaact::Model>;

struct Case {
  std::string model;
  int64_t image_size = 32;
  int64_t batch = 2;
  bool batchnorm = true;

  std::string name() const {
    return model + "_" + std::to_string(image_size) + (batchnorm ? "" : "_no_batchnorm");
  }
  ModelPointer make() const {
    ModelOptions options;
    options.image_size = image_size;
    options.batchnorm = batchnorm;
    return make_model(model, options);
  }
  Batch draw() const {
    return {torch::randn({batch, 3, image_size, image_size}), torch::randint(0, 10, {batch})};
  }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

std::vector<Case> cases() {
  std::vector<Case> all{{"resnet20", 32, 2, false}, {"resnet50", 224}, {"vit_small", 224, 1}};
  for (const auto& name : adaact::model_names()) all.push_back({name});
  return all;
}

void to_channels_last(torch::nn::Module& model) {
  for (auto& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    parameter.set_data(parameter.detach().contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

/// The weights of all convolutions and linear layers.
std::set<std::string> layer_weights(const torch::nn::Module& model) {
  std::set<std::string> names;
  for (const auto& module : model.named_modules("", /*include_self=*/false)) {
    if (module.value()->as<torch::nn::Conv2d>() != nullptr ||
        module.value()->as<torch::nn::Linear>() != nullptr) {
      names.insert(module.key() + ".weight");
    }
  }
  return names;
}

void expect_all_layers_observed(const torch::nn::Module& model,
                                const torch::optim::Optimizer& optimizer) {
  const auto* observing = dynamic_cast<const adaact::ObservingOptimizer*>(&optimizer);
  ASSERT_NE(observing, nullptr);
  std::set<std::string> observed;
  for (const auto& parameter : observing->coverage()) {
    if (parameter.observed) observed.insert(parameter.name);
  }
  for (const auto& name : layer_weights(model)) EXPECT_EQ(observed.count(name), 1U) << name;
}

class TrainedModel : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { torch::manual_seed(31); }
};

TEST_P(TrainedModel, AdaActObservesEveryConvolutionAndLinearLayer) {
  const WarningCapture warnings;
  auto model = GetParam().make();
  auto optimizer = adaact::make_optimizer("adaact", *model);
  EXPECT_TRUE(std::isfinite(train_step(model, *optimizer, GetParam().draw())));
  expect_all_layers_observed(*model, *optimizer);
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_TRUE(parameter.value().isfinite().all().item<bool>()) << parameter.key();
  }
  EXPECT_TRUE(warnings.messages.empty()) << warnings.messages.front();
}

INSTANTIATE_TEST_SUITE_P(Models, TrainedModel, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

class SmallTrainedModel : public TrainedModel {};

TEST_P(SmallTrainedModel, ChannelsLastGivesTheSameLogitsAndTrains) {
  auto model = GetParam().make();
  const auto batch = GetParam().draw();
  model->eval();
  const auto expected = model->forward(batch.x).detach();
  to_channels_last(*model);
  const Batch channels_last{batch.x.contiguous(torch::MemoryFormat::ChannelsLast), batch.y};
  EXPECT_TRUE(all_close(model->forward(channels_last.x).detach(), expected, 1e-4));
  model->train();
  auto optimizer = adaact::make_optimizer("adaact", *model);
  EXPECT_TRUE(std::isfinite(train_step(model, *optimizer, channels_last)));
  expect_all_layers_observed(*model, *optimizer);
}

TEST_P(SmallTrainedModel, Bfloat16AutocastStaysNearFloat32AndTrains) {
  auto model = GetParam().make();
  const auto batch = GetParam().draw();
  model->eval();
  const auto expected = model->forward(batch.x).detach();
  auto optimizer = adaact::make_optimizer("adaact", *model);
  torch::Tensor loss;
  {
    const CpuAutocast autocast;
    EXPECT_LT(relative_error(model->forward(batch.x).detach(), expected), 0.1);
    model->train();
    loss = cross_entropy(model->forward(batch.x).to(torch::kFloat32), batch.y);
  }
  loss.backward();
  optimizer->step();
  expect_all_layers_observed(*model, *optimizer);
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter.value().scalar_type(), torch::kFloat32);
    EXPECT_TRUE(parameter.value().isfinite().all().item<bool>()) << parameter.key();
  }
}

std::vector<Case> small_cases() {
  std::vector<Case> all{{"resnet20", 32, 2, false}};
  for (const auto* name : {"lenet5", "mlp", "resnet20", "resnet34", "densenet121", "vit_small"}) {
    all.push_back({name});
  }
  all.push_back({"resnet50", 64});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, SmallTrainedModel, ::testing::ValuesIn(small_cases()),
                         [](const auto& info) { return info.param.name(); });

/// K-FAC also watches the outputs of layers, which these models change in place.
TEST(ModelsUnderKfac, EveryLayerIsObserved) {
  torch::manual_seed(32);
  for (const auto& c : {Case{"lenet5"}, Case{"resnet20"}, Case{"resnet20", 32, 2, false}}) {
    auto model = c.make();
    auto optimizer = adaact::make_optimizer("kfac", *model);
    EXPECT_TRUE(std::isfinite(train_step(model, *optimizer, c.draw()))) << c.name();
    expect_all_layers_observed(*model, *optimizer);
  }
}

TEST(ModelsThatTrain, LearnASmallBatch) {
  torch::manual_seed(33);
  for (const auto& c : {Case{"lenet5", 32, 8}, Case{"resnet20", 32, 8}, Case{"mlp", 32, 8}}) {
    auto model = c.make();
    const auto batch = c.draw();
    auto optimizer = adaact::make_optimizer("sgd", *model, R"({"lr": 0.05})");
    const auto first = train_step(model, *optimizer, batch);
    double last = first;
    for (int step = 0; step < 40; ++step) last = train_step(model, *optimizer, batch);
    EXPECT_LT(last, 0.5 * first) << c.name();
  }
}

}  // namespace
