#include <cstring>
#include <fstream>

#include <adaact/io/safetensors.h>
#include <adaact/models/registry.h>
#include <adaact/models/weights.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include "models/golden_models.h"
#include "support/errors.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::LoadOptions;
using adaact::make_model;
using adaact::ModelOptions;
using adaact::NamedTensors;
using adaact::state_tensors;
using adaact::TensorFile;
using ModelPointer = std::shared_ptr<adaact::Model>;

ModelPointer small_model(const std::string& name, int64_t classes = 10) {
  ModelOptions options;
  options.classes = classes;
  return make_model(name, options);
}

NamedTensors copy_of_state(const adaact::Model& model) {
  NamedTensors copies;
  for (const auto& [name, tensor] : state_tensors(model)) {
    copies.emplace_back(name, tensor.detach().clone());
  }
  return copies;
}

void expect_same_state(const NamedTensors& actual, const NamedTensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(bit_identical(actual[i].second, expected[i].second)) << expected[i].first;
  }
}

/// Writes tensors as other programs do: no checksum, no metadata.
void write_foreign(const std::map<std::string, torch::Tensor>& tensors,
                   const std::filesystem::path& path, torch::ScalarType dtype, const char* code) {
  auto header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto values = tensor.detach().to(dtype).contiguous();
    const auto begin = data.size();
    data.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
    header[name] = {
        {"dtype", code}, {"shape", values.sizes().vec()}, {"data_offsets", {begin, data.size()}}};
  }
  const auto text = header.dump();
  const std::uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  std::ofstream(path, std::ios::binary) << bytes << text << data;
}

class ModelWeights : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(21); }

  std::filesystem::path file(const std::string& name = "weights.safetensors") const {
    return folder_.path() / name;
  }

  /// A file of a model's state with changes.
  template <typename Change>
  std::filesystem::path changed_file(const adaact::Model& model, Change change) {
    save_weights(model, file());
    auto content = TensorFile::read(file());
    change(content.tensors);
    content.write(file("changed.safetensors"));
    return file("changed.safetensors");
  }

  TemporaryFolder folder_;
};

TEST_F(ModelWeights, ARoundTripRestoresEveryBit) {
  for (const auto& name : adaact::model_names()) {
    auto model = small_model(name);
    model->forward(torch::randn({2, 3, 32, 32}));  // moves running statistics and counters
    save_weights(*model, file());
    auto other = small_model(name);
    const auto report = load_weights(*other, file());
    EXPECT_TRUE(report.replaced.empty());
    expect_same_state(state_tensors(*other), state_tensors(*model));
    model->eval();
    other->eval();
    const auto images = torch::randn({2, 3, 32, 32});
    EXPECT_TRUE(bit_identical(other->forward(images), model->forward(images))) << name;
  }
}

TEST_F(ModelWeights, TheFileHoldsStateNamesAndCountersAsIntegers) {
  auto model = small_model("resnet20");
  model->to(torch::kFloat64);
  model->forward(torch::randn({2, 3, 32, 32}, torch::kFloat64));
  save_weights(*model, file());
  const auto content = TensorFile::read(file(), TensorFile::Checksum::Required);
  EXPECT_EQ(content.tensors.size(), state_tensors(*model).size());
  const auto& counter = content.at("layer3.2.bn2.num_batches_tracked");
  EXPECT_EQ(counter.scalar_type(), torch::kInt64);
  EXPECT_EQ(counter.dim(), 0);
  EXPECT_EQ(counter.item<int64_t>(), 1);
  EXPECT_EQ(content.at("linear.weight").scalar_type(), torch::kFloat64);
}

TEST_F(ModelWeights, MetadataTravelsAndEqualModelsGiveEqualBytes) {
  auto model = small_model("lenet5");
  const std::map<std::string, std::string> metadata{{"classes", R"(["cat", "dog"])"}};
  save_weights(*model, file("a"), metadata);
  save_weights(*model, file("b"), metadata);
  const auto bytes = [](const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes(file("a")), bytes(file("b")));
  EXPECT_EQ(load_weights(*model, file("a")).metadata, metadata);
}

TEST_F(ModelWeights, FilesOfOtherProgramsLoadWithoutChecksumAndCounters) {
  auto source = small_model("resnet20");
  source->forward(torch::randn({2, 3, 32, 32}));
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : state_tensors(*source)) {
    if (!ends_with(name, "num_batches_tracked")) tensors[name] = tensor;
  }
  write_foreign(tensors, file(), torch::kFloat16, "F16");
  auto model = small_model("resnet20");
  load_weights(*model, file());
  for (const auto& [name, tensor] : state_tensors(*model)) {
    if (ends_with(name, "num_batches_tracked")) continue;
    EXPECT_TRUE(bit_identical(tensor, tensors[name].to(torch::kFloat16).to(torch::kFloat32)))
        << name;
  }
}

TEST_F(ModelWeights, LoadingKeepsDtypeLayoutAndGradients) {
  auto source = small_model("lenet5");
  save_weights(*source, file());
  auto model = small_model("lenet5");
  model->to(torch::kBFloat16);
  auto weight = model->named_parameters()["conv2.weight"];
  weight.set_data(weight.detach().contiguous(torch::MemoryFormat::ChannelsLast));
  load_weights(*model, file());
  EXPECT_EQ(weight.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
  EXPECT_TRUE(
      torch::equal(weight, source->named_parameters()["conv2.weight"].to(torch::kBFloat16)));
}

TEST_F(ModelWeights, AHeadOfAnotherSizeIsReplacedOnRequest) {
  for (const auto* name : {"lenet5", "resnet20", "densenet121", "resnet50", "vit_small"}) {
    auto source = small_model(name, 10);
    save_weights(*source, file());
    auto model = small_model(name, 7);
    const auto before = copy_of_state(*model);
    const auto message = error_of([&] { load_weights(*model, file()); });
    EXPECT_TRUE(contains(message, model->head_name() + ".weight is [10, "));
    EXPECT_TRUE(contains(message, model->head_name() + ".bias is [10], expected [7]"));
    EXPECT_TRUE(contains(message, "replace_head"));
    expect_same_state(state_tensors(*model), before);

    LoadOptions options;
    options.replace_head = true;
    const auto report = load_weights(*model, file(), options);
    const std::vector<std::string> head{model->head_name() + ".weight",
                                        model->head_name() + ".bias"};
    EXPECT_EQ(report.replaced, head);
    const auto loaded = state_tensors(*model);
    const auto expected = state_tensors(*source);
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      const bool of_head = std::find(head.begin(), head.end(), loaded[i].first) != head.end();
      EXPECT_TRUE(bit_identical(loaded[i].second, of_head ? before[i].second : expected[i].second))
          << loaded[i].first;
    }
  }
}

TEST_F(ModelWeights, AHeadThatFitsIsLoadedEvenIfItMayBeReplaced) {
  auto source = small_model("lenet5");
  save_weights(*source, file());
  auto model = small_model("lenet5");
  LoadOptions options;
  options.replace_head = true;
  EXPECT_TRUE(load_weights(*model, file(), options).replaced.empty());
  expect_same_state(state_tensors(*model), state_tensors(*source));
}

TEST_F(ModelWeights, EverythingWrongIsOneErrorAndNothingChanges) {
  auto model = small_model("resnet20");
  const auto path = changed_file(*small_model("resnet20"), [](auto& tensors) {
    tensors.erase("conv1.weight");
    tensors.erase("layer2.0.bn1.running_mean");
    tensors["module.conv1.weight"] = torch::zeros({16, 3, 3, 3});
    tensors["linear.scale"] = torch::zeros({1});
    tensors["bn1.weight"] = torch::zeros({17});
    tensors["layer1.0.conv1.weight"] = torch::zeros({16, 16, 3, 3}, torch::kInt32);
  });
  const auto before = copy_of_state(*model);
  const auto message = error_of([&] { load_weights(*model, path); });
  EXPECT_TRUE(contains(message, path.string() + " does not fit the model"));
  EXPECT_TRUE(contains(message, "missing: conv1.weight; layer2.0.bn1.running_mean\n"));
  EXPECT_TRUE(contains(message, "unexpected: linear.scale; module.conv1.weight\n"));
  EXPECT_TRUE(contains(message, "misshapen: bn1.weight is [17], expected [16]\n"));
  EXPECT_TRUE(contains(message, "of no floating-point dtype: layer1.0.conv1.weight is Int"));
  EXPECT_FALSE(contains(message, "replace_head"));
  expect_same_state(state_tensors(*model), before);
}

TEST_F(ModelWeights, AHeadThatIsNotWholeIsNotReplaced) {
  auto model = small_model("lenet5");
  LoadOptions options;
  options.replace_head = true;
  const auto refused = [&](const auto& change) {
    const auto path = changed_file(*small_model("lenet5"), change);
    const auto before = copy_of_state(*model);
    const auto message = error_of([&] { load_weights(*model, path, options); });
    expect_same_state(state_tensors(*model), before);
    return message;
  };
  EXPECT_TRUE(contains(refused([](auto& tensors) { tensors["fc3.bias"] = torch::zeros({5}); }),
                       "fc3.bias is [5], expected [10]"));
  EXPECT_TRUE(contains(refused([](auto& tensors) {
                         tensors["fc3.weight"] = torch::zeros({5, 80});
                         tensors["fc3.bias"] = torch::zeros({5});
                       }),
                       "fc3.weight is [5, 80], expected [10, 84]"));
  EXPECT_TRUE(contains(refused([](auto& tensors) {
                         tensors["fc3.weight"] = torch::zeros({5, 84});
                         tensors.erase("fc3.bias");
                       }),
                       "missing: fc3.bias"));
}

TEST_F(ModelWeights, AnotherModelsFileIsAnErrorThatListsBothSides) {
  save_weights(*small_model("lenet5"), file());
  const auto message = error_of([&] { load_weights(*small_model("resnet20"), file()); });
  EXPECT_TRUE(contains(message, "layer1.0.conv1.weight and 91 more"));
  EXPECT_TRUE(contains(message, "unexpected: conv1.bias; conv2.bias"));
}

TEST_F(ModelWeights, AnAbsentFileIsNamed) {
  EXPECT_TRUE(contains(error_of([&] { load_weights(*small_model("lenet5"), file("none")); }),
                       file("none").string()));
}

}  // namespace
