#include <adaact/train/classifier.h>

#include <cmath>
#include <thread>

#include <adaact/io/safetensors.h>
#include <adaact/models/weights.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "data/image_files.h"
#include "support/errors.h"
#include "support/odd_files.h"
#include "support/peak_memory.h"
#include "support/temporary_folder.h"

namespace {

using adaact::Classifier;
using adaact::ModelCard;
using adaact::testing::contains;
using adaact::testing::error_of;
using adaact::testing::plain_image;
namespace fs = std::filesystem;

ModelCard small_card(std::int64_t channels) {
  ModelCard card;
  card.model = "mlp";
  card.data.name = "image-folder";
  card.data.shape = {channels, 4, 4};
  card.data.class_names = {"dark", "grey", "bright"};
  const auto count = static_cast<std::size_t>(channels);
  card.data.normalization = {std::vector<float>(count, 0.5F), std::vector<float>(count, 0.25F)};
  return card;
}

class ClassifierTest : public ::testing::Test {
 protected:
  /// A model whose logits are b + w · (mean of its normalised input) for each class.
  void write_model(const ModelCard& card) const {
    const auto model = card.build();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->named_parameters()) parameter.value().zero_();
    auto parameters = model->parameters();
    // The first hidden neuron is 4 + mean, positive for every image; the rest stay zero.
    const auto inputs = static_cast<double>(card.data.shape.bytes());
    parameters[0][0].fill_(1.0 / inputs);
    parameters[1][0] = 4.0;
    for (std::size_t i = 2; i + 2 < parameters.size(); i += 2) parameters[i][0][0] = 1.0;
    auto head = parameters[parameters.size() - 2];
    head.select(1, 0).copy_(torch::tensor({-1.0F, 0.0F, 1.0F}));
    parameters.back().copy_(torch::tensor({4.0F, 0.0F, -4.0F}));
    adaact::save_weights(*model, weights(), card.to_metadata());
  }
  fs::path weights() const { return folder_.path() / "model.safetensors"; }
  fs::path picture(const std::vector<std::uint8_t>& colour) const {
    const auto path = folder_.path() / "picture.png";
    adaact::testing::write_png(path, plain_image(9, 7, colour), {PNG_COLOR_TYPE_RGB, 8, false, {}});
    return path;
  }

  adaact::testing::TemporaryFolder folder_;
};

TEST_F(ClassifierTest, ProbabilitiesAreTheSoftmaxOfTheNormalisedPicture) {
  write_model(small_card(3));
  const Classifier classifier(weights());
  const auto classes = classifier.classify(picture({255, 255, 255}));
  // The input is (1 - 0.5)/0.25 = 2 everywhere, so the logits are -2, 0 and 2 but for an addend.
  const auto expected = torch::softmax(torch::tensor({-2.0, 0.0, 2.0}), 0);
  ASSERT_EQ(classes.size(), 3U);  // fewer classes than five
  EXPECT_EQ(classes[0].name, "bright");
  EXPECT_NEAR(classes[0].probability, expected[2].item<double>(), 1e-5);
  EXPECT_EQ(classes[2].name, "dark");
  EXPECT_NEAR(classes[2].probability, expected[0].item<double>(), 1e-5);
  EXPECT_EQ(classifier.classify(picture({0, 0, 0}), 1).at(0).name, "dark");
}

TEST_F(ClassifierTest, AGreyModelSeesTheLuminance) {
  write_model(small_card(1));
  const Classifier classifier(weights());
  const auto probability_of_bright = [&](const std::vector<std::uint8_t>& colour) {
    for (const auto& each : classifier.classify(picture(colour))) {
      if (each.name == "bright") return each.probability;
    }
    return -1.0;
  };
  EXPECT_GT(probability_of_bright({0, 255, 0}), probability_of_bright({255, 0, 0}));
  EXPECT_GT(probability_of_bright({255, 0, 0}), probability_of_bright({0, 0, 255}));
}

TEST_F(ClassifierTest, WeightsThatSayNothingOfThemselvesAreAnError) {
  adaact::TensorFile file;
  file.tensors["fc.weight"] = torch::ones({2, 2});
  file.write(weights());
  EXPECT_TRUE(contains(error_of([&] { Classifier classifier(weights()); }),
                       "does not say what model it is for"));
}

/// The metadata of a card with one field of its input changed.
std::map<std::string, std::string> with_input(const char* field, const nlohmann::json& value) {
  auto metadata = small_card(3).to_metadata();
  auto input = nlohmann::json::parse(metadata.at("input"));
  input[field] = value;
  metadata["input"] = input.dump();
  return metadata;
}

TEST_F(ClassifierTest, WhatAFileSaysAboutItselfIsCheckedLikeACommandLine) {
  write_model(small_card(3));
  const auto tensors = adaact::TensorFile::read(weights()).tensors;
  const auto refusal = [&](const std::map<std::string, std::string>& metadata) {
    adaact::TensorFile file;
    file.tensors = tensors;
    file.metadata = metadata;
    file.write(weights());
    const auto error = error_of([&] { Classifier classifier(weights()); });
    EXPECT_TRUE(contains(error, weights().string()));
    return error;
  };
  for (const char* field : {"channels", "height", "width"}) {
    const auto name = std::string(field);
    EXPECT_TRUE(contains(refusal(with_input(field, -4)), name + " is -4, expected 1 to "));
    EXPECT_TRUE(contains(refusal(with_input(field, 0)), name + " is 0, expected 1 to "));
    EXPECT_TRUE(contains(refusal(with_input(field, 1'000'000'000'000)),
                         name + " is 1000000000000, expected 1 to "));
    EXPECT_TRUE(contains(refusal(with_input(field, 2.5)), name + " is 2.5, expected a whole"));
    EXPECT_TRUE(contains(refusal(with_input(field, "4")), name + " is \"4\", expected a whole"));
  }
  EXPECT_TRUE(contains(refusal(with_input("width", 5)), "width is 5, expected 4"));
  EXPECT_TRUE(contains(refusal(with_input("resize", -1)), "resize is -1, expected 0 to 16384"));
  EXPECT_TRUE(contains(refusal(with_input("mean", {0.5})), "mean has 1 numbers, expected 3"));
  EXPECT_TRUE(contains(refusal(with_input("std", {1, 0, 1})), "std has 0, expected numbers > 0"));
  EXPECT_TRUE(
      contains(refusal(with_input("std", {1, 1e39, 1})), "std has 1e+39, expected numbers"));

  auto metadata = small_card(3).to_metadata();
  const auto with = [&](const char* name, const std::string& value) {
    auto changed = metadata;
    changed[name] = value;
    return refusal(changed);
  };
  EXPECT_TRUE(contains(with("classes", "[]"), "classes are none"));
  EXPECT_TRUE(contains(with("classes", "[1, 2]"), "type must be string"));
  EXPECT_TRUE(contains(with("classes", adaact::testing::deep_json()), "classes is no JSON"));
  EXPECT_TRUE(contains(with("input", adaact::testing::deep_json()), "input is no JSON"));
  EXPECT_TRUE(contains(with("model", "mpl"), "model is 'mpl', expected one of: densenet121"));
  EXPECT_TRUE(contains(with("batchnorm", "2"), "batchnorm is '2', expected true or false"));
  EXPECT_TRUE(contains(with("model", "lenet5"), "image_size is 4, expected 28 or 32"));
}

/// A model of that size would take 51 GB, one with that head 10 GB.
TEST_F(ClassifierTest, AModelThatIsLargerThanItsFileIsNotMade) {
  write_model(small_card(3));
  auto file = adaact::TensorFile::read(weights());
  auto card = small_card(3);
  card.data.shape = {3, 4096, 4096};
  file.metadata = card.to_metadata();
  file.write(weights());
  EXPECT_TRUE(contains(error_of([&] { Classifier classifier(weights()); }),
                       "says that it is mlp for 3 classes and images of height 4096"));
  card = small_card(3);
  card.model = "resnet20";
  card.data.shape = {3, 32, 32};
  card.data.class_names.assign(1'000'000, "c");
  file.metadata = card.to_metadata();
  file.write(weights());
  std::string message;
  const auto grown = adaact::testing::peak_memory_of(
      [&] { message = error_of([&] { Classifier classifier(weights()); }); });
  EXPECT_TRUE(contains(message, "says that it is resnet20 for 1000000 classes"));
  EXPECT_LT(grown, 200'000'000);  // the names alone take 60 MB or more
}

TEST_F(ClassifierTest, APipeIsNotReadFrom) {
  adaact::testing::make_pipe(weights());
  EXPECT_TRUE(contains(error_of([&] { Classifier classifier(weights()); }), "is a pipe"));
}

TEST_F(ClassifierTest, WhatIsNoPictureIsNamed) {
  write_model(small_card(3));
  const Classifier classifier(weights());
  EXPECT_TRUE(
      contains(error_of([&] { classifier.classify(folder_.path() / "none.png"); }), "none.png"));
}

TEST_F(ClassifierTest, ATensorIsClassifiedAsTheFileOfItsPixels) {
  for (const std::int64_t channels : {1, 3}) {
    write_model(small_card(channels));
    const Classifier classifier(weights());
    const std::vector<std::uint8_t> colour{250, 120, 30};
    const auto of_file = classifier.classify(picture(colour));
    const auto pixels = torch::tensor(colour, torch::kByte).view({1, 3, 1, 1}).expand({2, 3, 9, 7});
    for (const auto& images : {pixels, pixels.to(torch::kFloat) / 255}) {
      const auto of_tensor = classifier.classify(images);
      ASSERT_EQ(of_tensor.size(), 2U);
      for (std::size_t i = 0; i < of_file.size(); ++i) {
        EXPECT_EQ(of_tensor[1][i].name, of_file[i].name);
        EXPECT_NEAR(of_tensor[1][i].probability, of_file[i].probability, 1e-6);
      }
    }
  }
}

TEST_F(ClassifierTest, ImagesOfTheModelsSizeAreTakenAsTheyAre) {
  auto card = small_card(3);
  card.resize_size = 8;  // a file of 4×4 pixels would be enlarged and its edge cut off
  write_model(card);
  const Classifier classifier(weights());
  auto images = torch::zeros({1, 3, 4, 4});
  images.slice(3, 0, 1).fill_(1.0);  // a bright edge, a quarter of the image
  // The mean input is (1/4 - 1/2)/(1/4) = -1, so the logits are 1, 0 and -1 but for an addend.
  const auto expected = torch::softmax(torch::tensor({1.0F, 0.0F, -1.0F}), 0);
  EXPECT_TRUE(torch::allclose(classifier.probabilities(images)[0], expected, 1e-5, 1e-6));
  const auto bytes = (images * 255).to(torch::kByte);
  EXPECT_TRUE(torch::allclose(classifier.probabilities(bytes)[0], expected, 1e-5, 1e-6));
  const auto half = classifier.probabilities(images.to(torch::kHalf));
  EXPECT_EQ(half.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::allclose(half[0], expected, 1e-5, 1e-6));
}

TEST_F(ClassifierTest, ChannelsAreMadeToFit) {
  write_model(small_card(3));
  const Classifier for_colours(weights());
  EXPECT_TRUE(torch::allclose(for_colours.probabilities(torch::full({1, 1, 4, 4}, 0.75)),
                              for_colours.probabilities(torch::full({1, 3, 4, 4}, 0.75))));
  write_model(small_card(1));
  const Classifier for_grey(weights());
  auto green = torch::zeros({1, 3, 4, 4});
  green.select(1, 1).fill_(1.0);
  EXPECT_TRUE(torch::allclose(for_grey.probabilities(green),
                              for_grey.probabilities(torch::full({1, 1, 4, 4}, 0.587)), 1e-4,
                              1e-5));
}

TEST_F(ClassifierTest, ManyFilesAreAnsweredInTheirOrder) {
  write_model(small_card(3));
  const Classifier classifier(weights());
  std::vector<fs::path> files;
  for (int i = 0; i < 130; ++i) {  // more than go into one batch
    const auto grey = static_cast<std::uint8_t>(i % 2 == 0 ? 0 : 255);
    files.push_back(folder_.path() / (std::to_string(i) + ".png"));
    adaact::testing::write_png(files.back(), plain_image(5, 4, {grey, grey, grey}),
                               {PNG_COLOR_TYPE_RGB, 8, false, {}});
  }
  const auto answers = classifier.classify(files, 1);
  ASSERT_EQ(answers.size(), files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    ASSERT_EQ(answers[i].size(), 1U);
    EXPECT_EQ(answers[i][0].name, i % 2 == 0 ? "dark" : "bright") << i;
  }
  EXPECT_TRUE(classifier.classify(std::vector<fs::path>{}).empty());
  EXPECT_EQ(classifier.probabilities(torch::empty({0, 3, 9, 9})).sizes(),
            (std::vector<std::int64_t>{0, 3}));
}

TEST_F(ClassifierTest, WrongTensorsAreNamed) {
  write_model(small_card(3));
  const Classifier classifier(weights());
  const auto error_with = [&](const torch::Tensor& images) {
    return error_of([&] { classifier.probabilities(images); });
  };
  EXPECT_TRUE(contains(error_with(torch::zeros({3, 4, 4})), "unsqueeze(0) makes a batch"));
  EXPECT_TRUE(
      contains(error_with(torch::zeros({1, 4, 4, 4})), "[1, 4, 4, 4], expected (N, 1 or 3"));
  EXPECT_TRUE(contains(error_with(torch::zeros({1, 3, 0, 4})), "[1, 3, 0, 4], expected"));
  EXPECT_TRUE(contains(error_with(torch::zeros({1, 3, 4, 4}, torch::kInt)), "images are Int"));
  EXPECT_TRUE(
      contains(error_with(torch::full({1, 3, 4, 4}, -2.0)), "from -2 to -2, expected 0 to 1"));
  EXPECT_TRUE(contains(error_with(torch::full({1, 3, 4, 4}, std::nan(""))), "expected 0 to 1"));
  EXPECT_TRUE(contains(error_with(torch::Tensor()), "an undefined tensor"));
}

TEST_F(ClassifierTest, ThreadsShareOne) {
  write_model(small_card(3));
  const Classifier classifier(weights());
  const auto images = torch::rand({3, 3, 9, 9});
  const auto expected = classifier.probabilities(images);
  const auto file = picture({10, 200, 90});
  const auto of_file = classifier.classify(file).front();
  constexpr int kThreads = 4;
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto again = classifier.classify(file).front();
        if (!torch::equal(classifier.probabilities(images), expected)) ++wrong[thread];
        if (again.name != of_file.name || again.probability != of_file.probability) ++wrong[thread];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

}  // namespace
