#include "train/step/weight_average.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/tolerance.h"

namespace {

using adaact::AveragedWeights;
using adaact::AverageInPlace;
using adaact::WeightAverage;
using adaact::testing::all_close;
using adaact::testing::bit_identical;
using adaact::testing::error_of;

/// A layer whose weight has a second name, and a normalisation with buffers.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_parameter("tied", first->weight);
  }
  torch::nn::Linear first{3, 3};
  torch::nn::BatchNorm1d norm{3};
};
TORCH_MODULE(Tied);

void change(Tied& model, double by) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(by);
}

TEST(WeightAverage, BeginsWithTheWeightsAndFollowsThem) {
  Tied model;
  AveragedWeights values;
  WeightAverage average(*model, 0.75, values);
  auto expected = model->first->weight.detach().clone();
  EXPECT_TRUE(bit_identical(values.at("tied"), expected));
  for (int step = 0; step < 3; ++step) {
    change(model, 0.5);
    average.update();
    expected = 0.75 * expected + 0.25 * model->first->weight.detach();
  }
  EXPECT_TRUE(all_close(values.at("tied"), expected, 1e-6));
}

TEST(WeightAverage, HasEachTensorOnceAndNoCounts) {
  Tied model;
  AveragedWeights values;
  const WeightAverage average(*model, 0.9, values);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : values) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.bias", "norm.bias", "norm.running_mean",
                                             "norm.running_var", "norm.weight", "tied"}));
}

TEST(WeightAverage, OfANormalisationIsThatOfItsRunningAveragesToo) {
  Tied model;
  AveragedWeights values;
  WeightAverage average(*model, 0.75, values);
  model->norm->forward(torch::randn({8, 3}) + 5.0);
  average.update();
  const auto expected = 0.25 * model->norm->running_mean;  // it began at 0
  EXPECT_TRUE(all_close(values.at("norm.running_mean"), expected, 1e-6));
  const AverageInPlace in_place(*model, values);
  EXPECT_TRUE(all_close(model->norm->running_mean, expected, 1e-6));
  EXPECT_EQ(model->norm->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(WeightAverage, GoesOnWithWhatIsThere) {
  Tied model;
  AveragedWeights whole;
  AveragedWeights parts;
  {
    WeightAverage first(*model, 0.75, whole);
    WeightAverage other(*model, 0.75, parts);
    change(model, 1.0);
    first.update();
    other.update();
    change(model, -3.0);
    first.update();
  }
  WeightAverage(*model, 0.75, parts).update();
  for (const auto& [name, tensor] : whole) EXPECT_TRUE(bit_identical(parts.at(name), tensor));
}

TEST(WeightAverage, TakesTheModelsPlaceAndGivesItBack) {
  Tied model;
  AveragedWeights values;
  WeightAverage average(*model, 0.75, values);
  change(model, 1.0);
  average.update();
  const auto raw = adaact::testing::snapshot(*model);
  const auto averaged = values.at("first.bias").clone();
  {
    const AverageInPlace in_place(*model, values);
    EXPECT_TRUE(bit_identical(model->first->bias.detach(), averaged));
    EXPECT_FALSE(bit_identical(model->first->weight.detach(), raw[0]));
  }
  adaact::testing::expect_bit_identical(adaact::testing::snapshot(*model), raw);
  EXPECT_TRUE(bit_identical(values.at("first.bias"), averaged));
  const AverageInPlace of_none(*model, {});
  adaact::testing::expect_bit_identical(adaact::testing::snapshot(*model), raw);
}

TEST(WeightAverage, KeepsWhatAnEvaluationGaveToTheModel) {
  Tied model;
  AveragedWeights values;
  const WeightAverage average(*model, 0.75, values);
  const auto raw = model->norm->running_mean.clone();
  const auto of_another_rank = torch::full({3}, 7.0);
  {
    const AverageInPlace in_place(*model, values);
    model->norm->running_mean.copy_(of_another_rank);
  }
  EXPECT_TRUE(bit_identical(model->norm->running_mean, raw));
  EXPECT_TRUE(bit_identical(values.at("norm.running_mean"), of_another_rank));
}

TEST(WeightAverage, AnErrorInItsPlaceIsNotLostWhereTheWayBackIsBarred) {
  Tied model;
  AveragedWeights values;
  const WeightAverage average(*model, 0.75, values);
  const auto fail_in_its_place = [&] {
    const AverageInPlace in_place(*model, values);
    values.at("first.bias").resize_({5});  // nothing can be copied to or from it
    throw std::runtime_error("the evaluation failed");
  };
  EXPECT_EQ(error_of(fail_in_its_place), "the evaluation failed");
}

TEST(WeightAverage, OneOfAnotherModelIsNamed) {
  Tied model;
  AveragedWeights values;
  const WeightAverage average(*model, 0.9, values);
  const auto problem = [&](const AveragedWeights& of) { return problem_with_average(of, *model); };
  EXPECT_EQ(problem(values), "");
  auto other = values;
  other.erase("norm.weight");
  EXPECT_EQ(problem(other), "'average' lacks 'norm.weight'");
  other = values;
  other["first.bias"] = torch::zeros({4});
  EXPECT_EQ(problem(other), "'average' has 'first.bias' as Float [4], expected Float [3]");
  other = values;
  other["third.bias"] = torch::zeros({4});
  EXPECT_EQ(problem(other), "'average' has 7 tensors, expected 6");
}

}  // namespace
