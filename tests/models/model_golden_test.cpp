// Structure and outputs of the models whose descriptions lie in data/.

#include <adaact/models/registry.h>
#include <gtest/gtest.h>

#include "models/golden_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;

constexpr double kTolerance = 1e-9;  // max|Δ| / max|reference|

class GoldenModel : public ::testing::TestWithParam<std::string> {
 protected:
  nlohmann::ordered_json golden_ = golden_model(GetParam());
  std::shared_ptr<adaact::Model> model_ = adaact::make_model(GetParam());
};

TEST_P(GoldenModel, StateHasTheSameNamesAndShapesInTheSameOrder) {
  const auto state = adaact::state_tensors(*model_);
  const auto& expected = golden_.at("state");
  ASSERT_EQ(state.size(), expected.size());
  auto entry = expected.begin();
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(name, entry.key());
    EXPECT_EQ(tensor.sizes().vec(), entry.value().get<std::vector<int64_t>>()) << name;
    ++entry;
  }
}

TEST_P(GoldenModel, HasAsManyParameters) {
  int64_t count = 0;
  for (const auto& parameter : model_->parameters()) count += parameter.numel();
  EXPECT_EQ(count, golden_.at("parameters").get<int64_t>());
}

TEST_P(GoldenModel, GivesTheSameLogits) {
  const torch::NoGradGuard no_grad;
  model_->to(torch::kFloat64);
  model_->eval();
  fill_with_golden_values(*model_);
  const auto shape = golden_.at("input_shape").get<std::vector<int64_t>>();
  const auto pixels = torch::zeros(shape).numel();
  const auto logits =
      model_->forward(torch::arange(pixels, torch::kFloat64).mul_(0.011).sin_().view(shape));
  EXPECT_EQ(logits.sizes().vec(), golden_.at("logits_shape").get<std::vector<int64_t>>());
  const auto recorded = golden_.at("logits").get<std::vector<std::vector<double>>>();
  ASSERT_EQ(static_cast<int64_t>(recorded.size()), logits.size(0));
  for (std::size_t row = 0; row < recorded.size(); ++row) {
    const auto expected = torch::tensor(recorded[row], torch::kFloat64);
    const auto actual = logits[static_cast<int64_t>(row)].narrow(0, 0, expected.size(0));
    EXPECT_TRUE(all_close(actual, expected, kTolerance)) << "image " << row;
  }
  const auto expected_sum = golden_.at("logits_abs_sum").get<double>();
  EXPECT_NEAR(logits.abs().sum().item<double>(), expected_sum, kTolerance * expected_sum);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, ::testing::ValuesIn(golden_model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
