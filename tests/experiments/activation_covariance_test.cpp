#include "experiments/measure/activation_covariance.h"

#include <adaact/data/synthetic.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/made_up_measurements.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::diagonal_share;
using adaact::Finding;
using adaact::Loader;
using adaact::LoaderOptions;
using adaact::Measured;

/// Images of 8×8 through two convolutions, a normalisation and a linear layer.
class TinyModel : public adaact::Model {
 public:
  TinyModel() : Model("fc") {
    conv1_ = register_module("conv1", torch::nn::Conv2d(1, 2, 3));
    norm_ = register_module("norm", torch::nn::BatchNorm2d(2));
    conv2_ = register_module("conv2", torch::nn::Conv2d(2, 3, 3));
    fc_ = register_module("fc", torch::nn::Linear(3 * 4 * 4, 10));
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    return fc_->forward(input_of_fc(images));
  }

  torch::Tensor input_of_conv2(const torch::Tensor& images) {
    return norm_->forward(conv1_->forward(images)).relu();
  }
  torch::Tensor input_of_fc(const torch::Tensor& images) {
    return conv2_->forward(input_of_conv2(images)).relu().flatten(1);
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

/// E[a aᵀ] and the centred one of rows (N, n).
std::pair<torch::Tensor, torch::Tensor> direct_covariance(const torch::Tensor& rows) {
  const auto a = rows.detach().to(torch::kFloat64);
  const auto around_mean = a - a.mean(0);
  const auto count = static_cast<double>(a.size(0));
  return {a.t().mm(a) / count, around_mean.t().mm(around_mean) / count};
}

class ActivationCovariances : public ::testing::Test {
 protected:
  ActivationCovariances() {
    torch::manual_seed(1);
    model_ = std::make_shared<TinyModel>();
    adaact::SyntheticOptions data;
    data.size = 10;
    data.shape = {1, 8, 8};
    auto options = LoaderOptions::evaluation();
    options.batch_size = 4;  // of which the last is smaller
    loader_ = std::make_unique<Loader>(adaact::make_synthetic(data), options);
  }

  torch::Tensor all_images() {
    std::vector<torch::Tensor> images;
    for (loader_->start(0); const auto batch = loader_->next();) images.push_back(batch->images);
    return torch::cat(images);
  }

  std::shared_ptr<TinyModel> model_;
  std::unique_ptr<Loader> loader_;
};

TEST_F(ActivationCovariances, AgreeWithTheRowsThatTheLayersRead) {
  const auto covariances = adaact::activation_covariances(*model_, *loader_, torch::kCPU);
  model_->eval();
  const auto images = all_images();
  const auto patches =
      torch::im2col(model_->input_of_conv2(images), {3, 3}, {1, 1}, {0, 0}, {1, 1});
  const auto rows_of_conv2 = patches.transpose(1, 2).flatten(0, 1);  // (N·16, 18)
  const auto rows_of_fc = model_->input_of_fc(images);

  ASSERT_EQ(covariances.size(), 2U) << "conv1 reads the images";
  EXPECT_EQ(covariances[0].layer, "conv2");
  EXPECT_EQ(covariances[1].layer, "fc");
  std::size_t layer = 0;
  for (const auto& rows : {rows_of_conv2, rows_of_fc}) {
    const auto [uncentred, centred] = direct_covariance(rows);
    EXPECT_TRUE(all_close(covariances[layer].uncentred, uncentred, 1e-5));
    EXPECT_TRUE(all_close(covariances[layer].centred, centred, 1e-5));
    ++layer;
  }
}

TEST_F(ActivationCovariances, LeaveTheModelAsItWas) {
  const auto before = model_->named_buffers()["norm.running_mean"].clone();
  adaact::activation_covariances(*model_, *loader_, torch::kCPU);
  EXPECT_TRUE(model_->is_training());
  EXPECT_TRUE(bit_identical(model_->named_buffers()["norm.running_mean"], before));
}

TEST(DiagonalShare, OfADiagonalMatrixIsEverything) {
  const auto share = diagonal_share(2.0 * torch::eye(5));
  EXPECT_EQ(share.size, 5);
  EXPECT_DOUBLE_EQ(share.mass, 1.0);
  EXPECT_DOUBLE_EQ(share.median_on, 2.0);
  EXPECT_DOUBLE_EQ(share.median_off, 0.0);
  EXPECT_DOUBLE_EQ(share.related_pairs, 0.0);
}

TEST(DiagonalShare, OfARankOneMatrixOfEqualEntriesIsWhatItIsIfAllAreAlike) {
  const auto share = diagonal_share(torch::ones({5, 5}));
  EXPECT_DOUBLE_EQ(share.mass, 1.0 / 5.0);
  EXPECT_DOUBLE_EQ(share.median_on, share.median_off);
  EXPECT_DOUBLE_EQ(share.related_pairs, 1.0);
}

TEST(DiagonalShare, DoesNotDependOnSignsOrOnInputsThatAreNeverActive) {
  const auto matrix = torch::tensor({{4.0, -1.0, 0.0}, {-1.0, 1.0, 0.0}, {0.0, 0.0, 0.0}});
  const auto share = diagonal_share(matrix);
  EXPECT_DOUBLE_EQ(share.mass, 5.0 / 7.0);
  EXPECT_DOUBLE_EQ(share.related_pairs, 1.0 / 3.0);
}

TEST(DiagonalShare, OfWhatIsNotSquareIsAnError) {
  EXPECT_TRUE(contains(error_of([] { diagonal_share(torch::ones({2, 3})); }), "a square one"));
}

/// One layer, with so many related pairs and such a median of its diagonal where that of the other
/// entries is 1.
Measured made_up(double related_pairs, double median_on, double diagonal_mass = 0.5) {
  const nlohmann::ordered_json share{{"diagonal_mass", diagonal_mass},
                                     {"diagonal_mass_if_alike", 0.25},
                                     {"median_on_diagonal", median_on},
                                     {"median_off_diagonal", 1.0},
                                     {"related_pairs", related_pairs}};
  Measured measured;
  measured.values["images"] = 5000;
  measured.values["layers"] = {
      {{"layer", "fc1"}, {"inputs", 4}, {"uncentred", share}, {"centred", share}}};
  measured.tensors["fc1"] = torch::eye(4) + 0.1;
  return measured;
}

TEST(CovarianceHeatmap, DrawsEveryLayerWithItsShares) {
  const auto& experiment = adaact::fig_covariance_heatmap();
  const auto html = drawn(experiment, found_measurements(experiment, {made_up(0.25, 3.0)}));
  EXPECT_TRUE(contains(html, "covariance_fc1_seed_0.png"));
  EXPECT_TRUE(contains(html, "the first 5,000 training images"));
  EXPECT_TRUE(contains(html, "<td class=\"number\">3.0000</td><td class=\"number\">25.00 %</td>"));
}

TEST(CovarianceHeatmap, CallsActivationsByTheLayerThatMadeThem) {
  const auto& experiment = adaact::fig_covariance_heatmap();
  const auto found = found_measurements(experiment, {made_up(0.25, 3.0)});
  EXPECT_TRUE(contains(drawn(experiment, found), "<th scope=\"row\">conv2 out</th>"));
  EXPECT_TRUE(contains(experiment.findings(found)[1].measured, "from 3 (conv2 out)"));
}

TEST(CovarianceHeatmap, WhatCannotBeDrawnIsAnError) {
  const auto check = adaact::fig_covariance_heatmap().plan({}).measurements.front().check;
  const auto refusal = [&](const auto& change) {
    auto measured = made_up(0.25, 3.0);
    check(measured);
    change(measured);
    return error_of([&] { check(measured); });
  };
  EXPECT_TRUE(contains(refusal([](Measured& measured) { measured.tensors.clear(); }),
                       "there is no covariance of 'fc1'"));
  EXPECT_TRUE(
      contains(refusal([](Measured& measured) { measured.tensors["fc1"] = torch::ones({3}); }),
               "the covariance of 'fc1' is Float [3], expected a matrix of float32"));
  EXPECT_TRUE(contains(refusal([](Measured& measured) {
                         measured.tensors["fc1"] = torch::ones({3, 3}, torch::kInt64);
                       }),
                       "the covariance of 'fc1' is Long [3, 3]"));
  EXPECT_TRUE(contains(refusal([](Measured& measured) { measured.values["images"] = 1e300; }),
                       "images is 1e+300, expected a whole number"));
  EXPECT_TRUE(
      contains(refusal([](Measured& measured) { measured.values["layers"][0].erase("centred"); }),
               "'centred'"));
}

/// made_up() with these medians on the diagonal and off it.
Measured with_medians(double on, double off) {
  auto measured = made_up(0.25, 3.0);
  for (const char* kind : {"uncentred", "centred"}) {
    measured.values["layers"][0][kind]["median_on_diagonal"] = on;
    measured.values["layers"][0][kind]["median_off_diagonal"] = off;
  }
  return measured;
}

TEST(CovarianceHeatmap, MediansOfZeroMakeNoNumbersThatAreNone) {
  const auto& experiment = adaact::fig_covariance_heatmap();
  const auto infinite = found_measurements(experiment, {with_medians(2.0, 0.0)});
  EXPECT_EQ(experiment.findings(infinite)[1].verdict, Finding::Verdict::Agrees);
  EXPECT_TRUE(contains(experiment.findings(infinite)[1].measured, "from ∞ (conv2 out)"));
  EXPECT_TRUE(contains(drawn(experiment, infinite), "<td class=\"number\">∞</td>"));
  const auto undefined = found_measurements(experiment, {with_medians(0.0, 0.0)});
  EXPECT_EQ(experiment.findings(undefined)[1].verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(experiment.findings(undefined)[1].measured, "both medians are 0"));
  EXPECT_TRUE(contains(drawn(experiment, undefined), "<td class=\"number\">–</td>"));
}

TEST(CovarianceHeatmap, AgreesOrNotByItsCriteria) {
  const auto& experiment = adaact::fig_covariance_heatmap();
  const auto verdicts = [&](const Measured& measured) {
    std::vector<Finding::Verdict> all;
    for (const auto& finding : experiment.findings(found_measurements(experiment, {measured}))) {
      all.push_back(finding.verdict);
    }
    return all;
  };
  using Verdicts = std::vector<Finding::Verdict>;
  const auto yes = Finding::Verdict::Agrees;
  const auto no = Finding::Verdict::Disagrees;
  EXPECT_EQ(verdicts(made_up(0.25, 3.0, /*diagonal_mass=*/0.6)), (Verdicts{yes, yes, yes}));
  EXPECT_EQ(verdicts(made_up(0.75, 0.9, /*diagonal_mass=*/0.1)), (Verdicts{no, no, no}));
  EXPECT_TRUE(experiment.findings(found_measurements(experiment, {})).empty());
}

}  // namespace
