#include <fstream>
#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;
using adaact::AdaActOptions;

/// A model with its optimizer, as a program that trains has them.
struct Training {
  explicit Training(torch::ScalarType dtype, const AdaActOptions& options = {})
      : optimizer((model->to(dtype), *model), options) {}
  SmallNet model;
  AdaAct optimizer;
};

std::vector<Batch> batches(int count, torch::ScalarType dtype) {
  torch::manual_seed(31);
  std::vector<Batch> all;
  for (int i = 0; i < count; ++i) all.push_back(image_batch(6, dtype));
  return all;
}

class Resume : public ::testing::TestWithParam<std::pair<torch::ScalarType, adaact::Covariance>> {};

TEST_P(Resume, FromAFileIsBitIdenticalToAnUninterruptedRun) {
  const auto [dtype, covariance] = GetParam();
  const auto options = AdaActOptions(0.05).covariance(covariance).refresh_period(4);
  const auto data = batches(10, dtype);
  const TemporaryFolder folder;
  const auto path = folder.path() / "optimizer.safetensors";

  Training uninterrupted(dtype, options);
  Training interrupted(dtype, options);
  copy_values(uninterrupted.model, interrupted.model);
  for (int t = 0; t < 10; ++t) train_step(uninterrupted.model, uninterrupted.optimizer, data[t]);

  for (int t = 0; t < 6; ++t) train_step(interrupted.model, interrupted.optimizer, data[t]);
  interrupted.optimizer.named_state().save(path);
  Training resumed(dtype, options);
  copy_values(interrupted.model, resumed.model);
  resumed.optimizer.named_state().load(path);
  for (int t = 6; t < 10; ++t) train_step(resumed.model, resumed.optimizer, data[t]);
  expect_bit_identical(snapshot(*resumed.model), snapshot(*uninterrupted.model));
}

INSTANTIATE_TEST_SUITE_P(AdaActState, Resume,
                         ::testing::Values(std::pair{torch::kFloat32, adaact::Covariance::Diagonal},
                                           std::pair{torch::kFloat64, adaact::Covariance::Diagonal},
                                           std::pair{torch::kFloat32, adaact::Covariance::Full},
                                           std::pair{torch::kFloat64, adaact::Covariance::Full}));

TEST(AdaActState, StreamAndLibTorchArchiveHoldTheSameState) {
  const auto data = batches(4, torch::kFloat32);
  Training original(torch::kFloat32);
  for (int t = 0; t < 3; ++t) train_step(original.model, original.optimizer, data[t]);

  std::stringstream stream;
  original.optimizer.named_state().save(stream);
  Training from_stream(torch::kFloat32);
  copy_values(original.model, from_stream.model);
  from_stream.optimizer.named_state().load(stream);

  std::stringstream archive;
  torch::save(original.optimizer, archive);
  Training from_archive(torch::kFloat32);
  copy_values(original.model, from_archive.model);
  torch::load(from_archive.optimizer, archive);

  train_step(original.model, original.optimizer, data[3]);
  train_step(from_stream.model, from_stream.optimizer, data[3]);
  train_step(from_archive.model, from_archive.optimizer, data[3]);
  expect_bit_identical(snapshot(*from_stream.model), snapshot(*original.model));
  expect_bit_identical(snapshot(*from_archive.model), snapshot(*original.model));
}

TEST(AdaActState, OptionsOfEveryGroupAreRestored) {
  torch::nn::Linear model(3, 2);
  const AdaActOptions options(0.1);
  AdaAct saved(*model, adaact::no_decay_groups(*model, options), options);
  saved.param_groups()[1].options().set_lr(0.025);
  std::stringstream stream;
  saved.named_state().save(stream);
  AdaAct loaded(*model, adaact::no_decay_groups(*model, AdaActOptions(0.7)), options);
  loaded.named_state().load(stream);
  EXPECT_EQ(loaded.param_groups()[0].options().get_lr(), 0.1);
  EXPECT_EQ(loaded.param_groups()[1].options().get_lr(), 0.025);
}

TEST(AdaActState, ReorderedModelFindsItsStateByName) {
  const auto a = torch::randn({2, 3}).requires_grad_();
  const auto b = torch::randn({2, 2}).requires_grad_();
  AdaAct saved(adaact::NamedTensors{{"a", a}, {"b", b}});
  torch::linear(torch::linear(torch::randn({4, 3}), a), b).sum().backward();
  saved.step();
  std::stringstream stream;
  saved.named_state().save(stream);
  AdaAct loaded(adaact::NamedTensors{{"b", b}, {"a", a}});
  loaded.named_state().load(stream);
  EXPECT_TRUE(bit_identical(loaded.second_moment(a), saved.second_moment(a)));
  EXPECT_TRUE(bit_identical(loaded.second_moment(b), saved.second_moment(b)));
}

TEST(AdaActState, SkippedStepsAreKept) {
  Training saved(torch::kFloat32, AdaActOptions().non_finite_policy(adaact::NonFinitePolicy::Skip));
  auto batch = image_batch(4, torch::kFloat32);
  batch.x.fill_(std::nanf(""));
  train_step(saved.model, saved.optimizer, batch);
  std::stringstream stream;
  saved.optimizer.named_state().save(stream);
  Training loaded(torch::kFloat32);
  loaded.optimizer.named_state().load(stream);
  EXPECT_EQ(loaded.optimizer.skipped_steps(), 1);
  train_step(loaded.model, loaded.optimizer, batch);  // the policy is kept too
  EXPECT_EQ(loaded.optimizer.skipped_steps(), 2);
}

TEST(AdaActState, ModelWithoutBiasesResumesWithItsNoDecayGroups) {
  torch::nn::Linear model(torch::nn::LinearOptions(3, 2).bias(false));
  AdaAct saved(*model, adaact::no_decay_groups(*model, AdaActOptions()));
  EXPECT_EQ(saved.param_groups().size(), 1U);
  std::stringstream stream;
  saved.named_state().save(stream);
  AdaAct loaded(*model, adaact::no_decay_groups(*model, AdaActOptions()));
  EXPECT_NO_THROW(loaded.named_state().load(stream));
}

TEST(AdaActState, CrossAttentionResumesWithItsSegments) {
  torch::manual_seed(32);
  const auto make = [] {
    return torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(4, 2));
  };
  auto model = make();
  AdaAct optimizer(*model, adaact::no_decay_groups(*model, AdaActOptions()));
  const auto step = [](torch::nn::MultiheadAttention& attention, AdaAct& its_optimizer, int seed) {
    torch::manual_seed(seed);
    const auto memory = torch::randn({5, 2, 4});
    its_optimizer.zero_grad();
    std::get<0>(attention->forward(torch::randn({3, 2, 4}), memory, memory)).sum().backward();
    its_optimizer.step();
  };
  for (int t = 0; t < 3; ++t) step(model, optimizer, t);
  std::stringstream stream;
  optimizer.named_state().save(stream);
  auto resumed = make();
  copy_values(model, resumed);
  AdaAct resumed_optimizer(*resumed, adaact::no_decay_groups(*resumed, AdaActOptions()));
  resumed_optimizer.named_state().load(stream);
  step(model, optimizer, 3);
  step(resumed, resumed_optimizer, 3);
  expect_bit_identical(snapshot(*resumed), snapshot(*model));
}

TEST(AdaActState, OtherNamesShapesOrGroupsAreListed) {
  const auto state_of = [](const adaact::NamedTensors& parameters) {
    std::stringstream stream;
    AdaAct(parameters).named_state().save(stream);
    return stream.str();
  };
  const auto a = torch::randn({2, 3}).requires_grad_();
  const auto saved = state_of({{"a", a}, {"old", torch::ones({1})}});
  AdaAct other(adaact::NamedTensors{{"a", torch::randn({2, 4})}, {"new", torch::ones({1})}});
  const auto error = error_of([&] {
    std::stringstream stream(saved);
    other.named_state().load(stream);
  });
  EXPECT_TRUE(contains(error, "'a' has shape [2, 4], in the file [2, 3]"));
  EXPECT_TRUE(contains(error, "'new' is not in the file"));
  EXPECT_TRUE(contains(error, "'old' is only in the file"));

  torch::nn::Linear model(3, 2);
  AdaAct one_group(*model);
  std::stringstream stream;
  one_group.named_state().save(stream);
  AdaAct two_groups(*model, adaact::no_decay_groups(*model, AdaActOptions()));
  EXPECT_TRUE(contains(error_of([&] { two_groups.named_state().load(stream); }),
                       "2 groups here, 1 in the file"));
}

TEST(AdaActState, WeightsFileIsNoOptimizerState) {
  torch::nn::Linear model(3, 2);
  AdaAct optimizer(*model);
  adaact::TensorFile weights;
  weights.tensors["weight"] = model->weight;
  std::stringstream stream;
  weights.write(stream);
  EXPECT_TRUE(contains(error_of([&] { optimizer.named_state().load(stream); }),
                       "holds no optimizer state"));
}

TEST(AdaActState, EntryThatDoesNotFitIsRefused) {
  torch::nn::Linear model(3, 2);
  AdaAct optimizer(*model);
  model->forward(torch::randn({4, 3})).sum().backward();
  optimizer.step();
  const auto error_with = [&](const char* entry, const torch::Tensor& value) {
    auto state = optimizer.export_state();
    state.entries["weight"][entry] = value;
    return error_of([&] { optimizer.import_state(state, "test"); });
  };
  const auto refused = [&](const char* entry, const torch::Tensor& value) {
    return contains(error_with(entry, value), entry);
  };
  EXPECT_TRUE(refused("exp_avg", torch::zeros({3, 2})));
  EXPECT_TRUE(refused("second_moment", torch::zeros({1, 4})));
  EXPECT_TRUE(refused("second_moment", torch::zeros({2, 3})));
  EXPECT_TRUE(refused("segments", torch::tensor({{0, 3, 1}}, torch::kInt64)));
  EXPECT_TRUE(refused("segments", torch::tensor({{0, 2, 0}}, torch::kInt64)));
  EXPECT_TRUE(refused("preconditioner", torch::zeros({1, 3, 3})));
  EXPECT_TRUE(refused("step", torch::zeros({2})));
  EXPECT_TRUE(refused("step", torch::tensor(-1, torch::kInt64)));
  EXPECT_TRUE(contains(error_with("second_moment", torch::zeros({1, 3, 3})),
                       "lacks the entry 'preconditioner'"));
  EXPECT_TRUE(refused("surprise", torch::zeros({2})));
}

TEST(AdaActState, EveryAlteredOrMissingByteIsAnErrorAndTheOptimizerKeepsItsState) {
  const auto w = torch::randn({1, 2}).requires_grad_();
  const adaact::NamedTensors parameters{{"w", w}};
  AdaAct saved(parameters);
  torch::linear(torch::randn({3, 2}), w).sum().backward();
  saved.step();
  std::stringstream stream;
  saved.named_state().save(stream);
  const auto bytes = stream.str();

  AdaAct optimizer(parameters);
  torch::linear(10 * torch::randn({3, 2}), w).sum().backward();
  optimizer.step();
  std::stringstream own;
  optimizer.named_state().save(own);
  const auto refuses = [&](const std::string& damaged) {
    std::stringstream in(damaged);
    EXPECT_ANY_THROW(optimizer.named_state().load(in));
    std::stringstream after;
    optimizer.named_state().save(after);
    return after.str() == own.str();
  };
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 0x01);
    ASSERT_TRUE(refuses(altered)) << "byte " << at;
    ASSERT_TRUE(refuses(bytes.substr(0, at))) << "cut at " << at;
  }
}

TEST(AdaActState, MissingFileIsNamedAndUnwritableFolderToo) {
  torch::nn::Linear model(3, 2);
  AdaAct optimizer(*model);
  EXPECT_TRUE(
      contains(error_of([&] { optimizer.named_state().load("no/such/state"); }), "no/such/state"));
  EXPECT_TRUE(
      contains(error_of([&] { optimizer.named_state().save("no/such/state"); }), "no/such/state"));
}

TEST(AdaActState, AnArchiveOfTorchSaveIsToldApart) {
  auto model = make_mlp();
  AdaAct optimizer(*model);
  std::stringstream archive;
  torch::save(optimizer, archive);
  EXPECT_TRUE(contains(error_of([&] { optimizer.named_state().load(archive); }),
                       "what torch::save wrote of an optimizer torch::load reads"));
}

}  // namespace
