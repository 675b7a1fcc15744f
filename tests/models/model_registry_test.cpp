#include <limits>

#include <adaact/models/registry.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"

namespace {

using adaact::default_model_options;
using adaact::make_model;
using adaact::ModelOptions;
using adaact::testing::contains;
using adaact::testing::error_of;

/// The message for a model with one option of its defaults changed.
template <typename Change>
std::string refusal(const std::string& name, Change change) {
  auto options = default_model_options(name);
  change(options);
  return error_of([&] { make_model(name, options); });
}

TEST(ModelRegistry, ListsEveryModel) {
  const std::vector<std::string> expected{"densenet121", "lenet5",   "mlp",
                                          "resnet101",   "resnet20", "resnet32",
                                          "resnet34",    "resnet50", "vit_small"};
  EXPECT_EQ(adaact::model_names(), expected);
}

TEST(ModelRegistry, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  const auto message = error_of([] { make_model("resnet18"); });
  EXPECT_TRUE(contains(message, "there is no model 'resnet18'"));
  for (const auto& name : adaact::model_names()) EXPECT_TRUE(contains(message, name));
  EXPECT_TRUE(contains(error_of([] { default_model_options("x"); }), "there is no model 'x'"));
}

TEST(ModelRegistry, DefaultsAreTheDataOfEachModel) {
  EXPECT_EQ(default_model_options("resnet20").classes, 10);
  EXPECT_EQ(default_model_options("resnet34").classes, 100);
  EXPECT_EQ(default_model_options("densenet121").classes, 100);
  EXPECT_EQ(default_model_options("densenet121").image_size, 32);
  for (const auto* name : {"resnet50", "resnet101", "vit_small"}) {
    EXPECT_EQ(default_model_options(name).classes, 1000);
    EXPECT_EQ(default_model_options(name).image_size, 224);
  }
}

TEST(ModelRegistry, EveryModelGivesOneLogitPerClassAndNamesItsHead) {
  const torch::NoGradGuard no_grad;
  for (const auto& name : adaact::model_names()) {
    ModelOptions options;
    options.classes = 7;
    auto model = make_model(name, options);
    model->eval();
    const auto logits = model->forward(torch::randn({3, 3, 32, 32}));
    EXPECT_EQ(logits.sizes().vec(), (std::vector<int64_t>{3, 7})) << name;
    const auto parameters = model->named_parameters();
    EXPECT_EQ(parameters[model->head_name() + ".weight"].size(0), 7) << name;
    EXPECT_EQ(parameters[model->head_name() + ".bias"].size(0), 7) << name;
  }
}

TEST(ModelRegistry, SmallModelsTakeGreyImages) {
  const torch::NoGradGuard no_grad;
  for (const auto* name : {"lenet5", "mlp", "resnet20", "resnet34", "densenet121"}) {
    ModelOptions options;
    options.channels = 1;
    options.image_size = 28;
    auto model = make_model(name, options);
    model->eval();
    EXPECT_EQ(model->forward(torch::randn({2, 1, 28, 28})).size(1), 10) << name;
  }
}

TEST(ModelRegistry, ImpossibleOptionsAreNamedWithWhatWasExpected) {
  EXPECT_TRUE(contains(refusal("resnet20", [](auto& options) { options.classes = 0; }),
                       "model 'resnet20': classes is 0, expected 1 to 1048576"));
  EXPECT_TRUE(contains(refusal("lenet5", [](auto& options) { options.channels = 0; }),
                       "model 'lenet5': channels is 0, expected 1 to 1024"));
  for (const auto* name : {"resnet50", "resnet101", "vit_small"}) {
    const auto message = refusal(name, [](auto& options) { options.channels = 1; });
    EXPECT_TRUE(contains(message,
                         "channels is 1, expected 3; models for any number of channels: "
                         "densenet121, lenet5, mlp, resnet20, resnet32, resnet34"));
  }
  EXPECT_TRUE(contains(refusal("lenet5", [](auto& options) { options.image_size = 30; }),
                       "image_size is 30, expected 28 or 32"));
  EXPECT_TRUE(contains(refusal("mlp", [](auto& options) { options.image_size = 0; }),
                       "image_size is 0, expected 1 to 4096"));
  EXPECT_TRUE(contains(refusal("densenet121", [](auto& options) { options.image_size = 7; }),
                       "image_size is 7, expected 8 to 4096"));
  EXPECT_TRUE(contains(refusal("resnet50", [](auto& options) { options.image_size = 31; }),
                       "image_size is 31, expected 32 to 4096"));
  EXPECT_TRUE(contains(refusal("vit_small", [](auto& options) { options.image_size = 230; }),
                       "image_size is 230, expected a multiple of 16 up to 4096"));
}

constexpr auto kAbsurd = int64_t{1} << 40;

TEST(ModelRegistry, AbsurdSizesAreRefusedBeforeMemoryIsTaken) {
  for (const auto& name : adaact::model_names()) {
    EXPECT_TRUE(contains(refusal(name, [](auto& options) { options.classes = kAbsurd; }),
                         "classes is 1099511627776, expected 1 to 1048576"));
    EXPECT_TRUE(contains(refusal(name, [](auto& options) { options.channels = kAbsurd; }),
                         "channels is 1099511627776, expected 1 to 1024"));
    EXPECT_TRUE(contains(refusal(name, [](auto& options) { options.image_size = kAbsurd; }),
                         "image_size is 1099511627776, expected "));
  }
  EXPECT_TRUE(contains(refusal("mlp", [](auto& options) { options.hidden = {kAbsurd}; }),
                       "hidden is [1099511627776], expected sizes of 1 to 1048576"));
}

TEST(ModelRegistry, LeastParametersGrowAsTheModelDoes) {
  const auto count = [](const std::string& name, const ModelOptions& options) {
    int64_t sum = 0;
    for (const auto& parameter : make_model(name, options)->named_parameters()) {
      const auto& key = parameter.key();
      const bool is_bias = key.size() > 4 && key.compare(key.size() - 4, 4, "bias") == 0;
      if (!is_bias) sum += parameter.value().numel();
    }
    return sum;
  };
  for (const auto& name : adaact::model_names()) {
    const auto options = adaact::default_model_options(name);
    auto smallest = options;
    if (name == "resnet20" || name == "resnet32") smallest.batchnorm = false;
    const bool takes_grey = name != "resnet50" && name != "resnet101" && name != "vit_small";
    if (takes_grey) smallest.channels = 1;
    const auto least = adaact::least_parameters(name, smallest);
    EXPECT_LE(least, count(name, smallest)) << name;
    EXPECT_GT(static_cast<double>(least), 0.95 * static_cast<double>(count(name, smallest)))
        << name;
    auto more = options;
    more.classes += 5;
    if (name == "mlp" || name == "vit_small") more.image_size += 16;
    EXPECT_EQ(adaact::least_parameters(name, more) - adaact::least_parameters(name, options),
              count(name, more) - count(name, options))
        << name;
  }
}

TEST(ModelRegistry, OptionsOfOtherModelsAreErrorsThatNameThoseModels) {
  for (const auto* name : {"vit_small", "lenet5", "resnet34", "resnet50"}) {
    const auto message = refusal(name, [](auto& options) { options.batchnorm = false; });
    EXPECT_TRUE(contains(message, std::string("model '") + name +
                                      "': batchnorm is false, expected true; models that can do "
                                      "without: resnet20, resnet32"));
  }
  EXPECT_TRUE(contains(refusal("resnet20", [](auto& options) { options.drop_path = 0.1; }),
                       "drop_path is 0.1, expected 0; models that have it: resnet101, resnet50, "
                       "vit_small"));
  EXPECT_TRUE(contains(refusal("lenet5", [](auto& options) { options.hidden = {3}; }),
                       "hidden is [3], expected none"));
  EXPECT_TRUE(contains(refusal("mlp",
                               [](auto& options) {
                                 options.hidden = {64, 0};
                               }),
                       "hidden is [64, 0], expected sizes of 1 to 1048576"));
}

TEST(ModelRegistry, DropPathMustBeARate) {
  for (const auto rate : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto message = refusal("vit_small", [rate](auto& options) { options.drop_path = rate; });
    EXPECT_TRUE(contains(message, "expected from 0 to below 1"));
  }
}

}  // namespace
