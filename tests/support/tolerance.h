#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace adaact::testing {

/// How far two computations of the same thing may differ, relative to the largest entry, when both
/// take inputs of this dtype and sum in float32 or wider.
inline double tolerance(torch::ScalarType dtype) { return dtype == torch::kFloat64 ? 1e-12 : 2e-6; }

inline double relative_error(const torch::Tensor& actual, const torch::Tensor& reference) {
  const auto expected = reference.to(torch::kFloat64);
  if (expected.numel() == 0) return 0.0;
  const auto scale = expected.abs().max().item<double>();
  const auto error = (actual.to(torch::kFloat64) - expected).abs().max().item<double>();
  return scale > 0.0 ? error / scale : error;
}

inline ::testing::AssertionResult all_close(const torch::Tensor& actual,
                                            const torch::Tensor& reference, double tolerance) {
  if (actual.sizes() != reference.sizes()) {
    return ::testing::AssertionFailure()
           << "shapes differ: " << actual.sizes() << " and " << reference.sizes();
  }
  const auto error = relative_error(actual, reference);
  if (error <= tolerance) return ::testing::AssertionSuccess();  // false for NaN too
  return ::testing::AssertionFailure() << "relative error " << error << " > " << tolerance;
}

inline ::testing::AssertionResult bit_identical(const torch::Tensor& actual,
                                                const torch::Tensor& reference) {
  if (actual.scalar_type() == reference.scalar_type() && torch::equal(actual, reference)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "relative error " << relative_error(actual, reference);
}

/// Clones of a module's parameters.
inline std::vector<torch::Tensor> snapshot(const torch::nn::Module& module) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : module.parameters()) values.push_back(parameter.detach().clone());
  return values;
}

inline void expect_bit_identical(const std::vector<torch::Tensor>& actual,
                                 const std::vector<torch::Tensor>& reference) {
  ASSERT_EQ(actual.size(), reference.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(bit_identical(actual[i], reference[i])) << "parameter " << i;
  }
}

inline void expect_close(const std::vector<torch::Tensor>& actual,
                         const std::vector<torch::Tensor>& reference, double tolerance) {
  ASSERT_EQ(actual.size(), reference.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(all_close(actual[i], reference[i], tolerance)) << "parameter " << i;
  }
}

}  // namespace adaact::testing
