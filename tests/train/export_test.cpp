#include <adaact/train/export.h>

#include <fstream>
#include <limits>
#include <set>

#include <adaact/models/weights.h>
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/run_files.h"
#include "support/temporary_folder.h"

namespace {

using adaact::ModelCard;
using adaact::testing::bytes_of;
using adaact::testing::contains;
using adaact::testing::error_of;
namespace fs = std::filesystem;

/// A model by name for images as small as it takes.
ModelCard card_of(const std::string& model) {
  ModelCard card;
  card.model = model;
  card.data.name = "image-folder";
  const auto options = adaact::default_model_options(model);
  const bool large = model == "resnet50" || model == "resnet101" || model == "vit_small";
  const std::int64_t side = large ? 32 : model == "lenet5" ? 28 : 16;
  card.data.shape = {options.channels, side, side};
  card.data.class_names = {"cat", "dog", "élan"};
  const auto channels = static_cast<std::size_t>(options.channels);
  card.data.normalization = {std::vector<float>(channels, 0.25F),
                             std::vector<float>(channels, 0.5F)};
  card.data.normalization.mean.front() = 0.125F;
  card.resize_size = side + 4;
  return card;
}

class ExportTest : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_.path() / name; }

  /// Weights as after a training: no buffer is what it was at the beginning.
  std::shared_ptr<adaact::Model> write_weights(const ModelCard& card) const {
    torch::manual_seed(5);
    auto model = card.build();
    const torch::NoGradGuard no_grad;
    for (auto& buffer : model->named_buffers()) {
      auto values = buffer.value();
      if (values.is_floating_point()) values.copy_(0.5 + torch::rand_like(values));
    }
    model->eval();
    adaact::save_weights(*model, at("model.safetensors"), card.to_metadata());
    return model;
  }

  adaact::testing::TemporaryFolder folder_;
};

TEST_F(ExportTest, EveryModelOfTheRegistryGivesItsOwnLogits) {
  const torch::NoGradGuard no_grad;
  for (const auto& name : adaact::model_names()) {
    SCOPED_TRACE(name);
    const auto card = card_of(name);
    const auto model = write_weights(card);
    const auto file = at(name + ".pt");
    const auto report = adaact::export_torchscript(at("model.safetensors"), file);
    EXPECT_EQ(report.bytes, fs::file_size(file));
    EXPECT_LE(report.largest_difference, 1e-5);
    EXPECT_GT(report.images_compared, 0);

    auto script = torch::jit::load(file.string());
    const auto side = card.data.shape.height;
    for (const std::int64_t batch : {1, 2, 7}) {
      const auto images = torch::rand({batch, card.data.shape.channels, side, side});
      auto input = (images - 0.25) / 0.5;
      input.select(1, 0).copy_((images.select(1, 0) - 0.125) / 0.5);
      const auto expected = model->forward(input);
      const auto actual = script.forward({images}).toTensor();
      ASSERT_EQ(actual.sizes(), expected.sizes());
      const auto largest = std::max(1.0, expected.abs().max().item<double>());
      EXPECT_LE((actual - expected).abs().max().item<double>(), 1e-5 * largest);
    }
  }
}

TEST_F(ExportTest, TheModuleSaysWhatItIsFor) {
  const auto card = card_of("resnet20");
  const auto model = write_weights(card);
  adaact::export_torchscript(at("model.safetensors"), at("model.pt"));
  auto script = torch::jit::load(at("model.pt").string());
  EXPECT_EQ(script.attr("model").toStringRef(), "resnet20");
  const auto classes = script.attr("classes").toListRef();
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_EQ(classes[2].toStringRef(), "élan");
  EXPECT_EQ(script.attr("channels").toInt(), 3);
  EXPECT_EQ(script.attr("image_size").toInt(), 16);
  EXPECT_EQ(script.attr("resize_size").toInt(), 20);
  EXPECT_EQ(script.attr("mean").toDoubleVector(), (std::vector<double>{0.125, 0.25, 0.25}));
  EXPECT_EQ(script.attr("std").toDoubleVector(), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_FALSE(script.is_training());

  std::set<std::string> names;
  for (const auto& parameter : script.named_parameters()) names.insert(parameter.name);
  for (const auto& buffer : script.named_buffers()) names.insert(buffer.name);
  std::set<std::string> expected;
  for (const auto& [name, tensor] : adaact::state_tensors(*model)) expected.insert(name);
  EXPECT_EQ(names, expected);
}

TEST_F(ExportTest, AConvolutionalModelTakesImagesOfOtherSizes) {
  const auto model = write_weights(card_of("resnet20"));
  adaact::export_torchscript(at("model.safetensors"), at("model.pt"));
  auto script = torch::jit::load(at("model.pt").string());
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(script.forward({torch::rand({2, 3, 24, 40})}).toTensor().sizes(),
            (std::vector<std::int64_t>{2, 3}));
}

TEST_F(ExportTest, EqualWeightsGiveEqualOutputsWhateverWasDrawnBefore) {
  write_weights(card_of("mlp"));
  const auto first = adaact::export_torchscript(at("model.safetensors"), at("a.pt"));
  torch::rand({100});
  const auto second = adaact::export_torchscript(at("model.safetensors"), at("b.pt"));
  EXPECT_EQ(first.largest_difference, second.largest_difference);
}

TEST_F(ExportTest, ADivergedModelIsNotExportedAndTheOldFileStays) {
  const auto card = card_of("mlp");
  const auto model = write_weights(card);
  {
    const torch::NoGradGuard no_grad;
    model->parameters().back().fill_(std::numeric_limits<float>::quiet_NaN());
  }
  adaact::save_weights(*model, at("model.safetensors"), card.to_metadata());
  std::ofstream(at("model.pt")) << "old";
  const auto message =
      error_of([&] { adaact::export_torchscript(at("model.safetensors"), at("model.pt")); });
  EXPECT_TRUE(contains(message, "'fc3.bias' in " + at("model.safetensors").string() +
                                    " holds a number that is not finite"));
  EXPECT_EQ(bytes_of(at("model.pt")), "old");
}

TEST_F(ExportTest, SafetensorsAreTheRunsOwn) {
  write_weights(card_of("lenet5"));
  const auto report = adaact::export_safetensors(at("model.safetensors"), at("copy.safetensors"));
  EXPECT_EQ(report.card.model, "lenet5");
  EXPECT_EQ(bytes_of(at("copy.safetensors")), bytes_of(at("model.safetensors")));
}

}  // namespace
