#include "experiments/measure/convergence.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/made_up_measurements.h"

namespace {

using namespace adaact::testing;
using adaact::Finding;
using adaact::IterationCurve;
using adaact::Measured;

TEST(Convergence, TheExponentOfAPowerIsFound) {
  IterationCurve curve{{32, 64, 128, 256}, {}};
  for (const auto horizon : curve.iterations) {
    curve.values.push_back(3.0 * std::pow(static_cast<double>(horizon), -0.75));
  }
  EXPECT_NEAR(adaact::fitted_exponent(curve), -0.75, 1e-12);
}

TEST(Convergence, TheSmallestFactorTouchesTheCurveOnce) {
  IterationCurve curve = adaact::corollary_rate({32, 64, 128});
  curve.values[0] *= 0.5;
  curve.values[1] *= 4.0;
  EXPECT_DOUBLE_EQ(adaact::smallest_factor(curve), 4.0);
}

TEST(Convergence, TheSmallestGradientIsThatOfTheMean) {
  const IterationCurve one{{16, 32, 48, 64}, {9.0, 1.0, 4.0, 6.0}};
  const IterationCurve other{{16, 32, 48, 64}, {9.0, 9.0, 2.0, 6.0}};
  const auto smallest = adaact::smallest_gradients({one, other});
  EXPECT_EQ(smallest.minimum.iterations, (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(smallest.minimum.values, (std::vector<double>{5.0, 3.0}));
  EXPECT_DOUBLE_EQ(smallest.standard_errors[0], 4.0);
  EXPECT_DOUBLE_EQ(smallest.standard_errors[1], 1.0);
}

TEST(Convergence, AdaActObeysTheRate) {
  std::vector<IterationCurve> curves;
  for (const std::uint64_t seed : {1, 2, 3}) {
    curves.push_back(adaact::squared_gradient_norms(1024, seed, say_nothing));
  }
  const auto minimum = adaact::smallest_gradients(curves).minimum;
  EXPECT_EQ(minimum.iterations, (std::vector<std::int64_t>{32, 64, 128, 256, 512, 1024}));
  EXPECT_LE(adaact::fitted_exponent(minimum),
            adaact::fitted_exponent(adaact::corollary_rate(minimum.iterations)));
}

TEST(Convergence, TheSeedDecides) {
  const auto once = adaact::squared_gradient_norms(64, 7, say_nothing);
  EXPECT_EQ(once.values, adaact::squared_gradient_norms(64, 7, say_nothing).values);
  const auto other = adaact::squared_gradient_norms(64, 8, say_nothing);
  EXPECT_NE(once.values, other.values);
  EXPECT_EQ(once.values.front(), other.values.front()) << "the start is the same";
}

/// Five seeds whose gradient norms fall like this power of t, up to 512 like another.
std::vector<Measured> made_up_norms(double exponent, double exponent_at_first) {
  Measured measured;
  for (const double t : {32, 64, 128, 256, 512, 1024, 2048}) {
    const auto falling_at_first = std::pow(std::min(t, 512.0) / 512.0, exponent_at_first);
    measured.values["iterations"].push_back(static_cast<int>(t));
    measured.values["squared_gradient_norms"].push_back(
        falling_at_first * std::pow(std::max(t, 512.0) / 512.0, exponent));
  }
  return std::vector<Measured>(5, measured);
}

TEST(ConvergenceExperiment, DrawsTheBoundBesideTheMeasurement) {
  const auto& experiment = adaact::theory_convergence();
  const auto html = drawn(experiment, found_measurements(experiment, made_up_norms(-1.0, -1.0)));
  EXPECT_TRUE(contains(html, "convergence.png"));
  EXPECT_TRUE(contains(html, "is the smallest with which"));
  EXPECT_TRUE(contains(html, "E is the mean: 5."));
}

TEST(ConvergenceExperiment, AgreesWhereTheMeasuredExponentIsNotAboveTheBounds) {
  const auto& experiment = adaact::theory_convergence();
  const auto finding = [&](double exponent, double exponent_at_first) {
    return experiment
        .findings(found_measurements(experiment, made_up_norms(exponent, exponent_at_first)))
        .at(0);
  };
  EXPECT_EQ(finding(-0.5, -0.5).verdict, Finding::Verdict::Agrees);
  EXPECT_EQ(finding(-0.1, -0.1).verdict, Finding::Verdict::Disagrees);
  EXPECT_EQ(finding(-0.1, -2.0).verdict, Finding::Verdict::Disagrees) << "what was fast is over";
  EXPECT_EQ(finding(-0.5, -0.01).verdict, Finding::Verdict::Agrees);
  EXPECT_TRUE(
      contains(finding(-0.5, -0.01).measured,
               "From T = 512 to 2,048 it falls like T^-0.50, log T / √T over the same range "
               "like T^-0.36."))
      << finding(-0.5, -0.01).measured;
}

TEST(ConvergenceExperiment, OtherIterationsThanThoseMeasuredAreAnError) {
  const auto check = adaact::theory_convergence().plan({}).measurements.front().check;
  const auto iterations = adaact::iterations_with_gradients(65536);
  Measured measured;
  measured.values = {{"iterations", iterations},
                     {"squared_gradient_norms", std::vector<double>(iterations.size(), 0.5)}};
  check(measured);
  auto wrong = measured;
  wrong.values["squared_gradient_norms"].erase(0);
  EXPECT_TRUE(contains(error_of([&] { check(wrong); }), "'squared_gradient_norms' are "));
  wrong = measured;
  wrong.values["iterations"] = {1, 2, 3};
  EXPECT_TRUE(contains(error_of([&] { check(wrong); }), "'iterations' are not those up to 65536"));
  wrong.values["iterations"] = "many";
  EXPECT_TRUE(contains(error_of([&] { check(wrong); }), "type must be array"));
}

TEST(ConvergenceExperiment, ItsSettingHoldsAllThatDecides) {
  const auto setting = adaact::theory_convergence().plan({}).measurements.front().setting;
  EXPECT_EQ(setting.at("steps"), 65536);
  EXPECT_EQ(setting.at("seed"), 200);
  EXPECT_EQ(setting.at("problem_seed"), 100);
  EXPECT_EQ(setting.at("batch"), 8);
  EXPECT_EQ(setting.at("samples"), 256);
  EXPECT_EQ(setting.at("betas"), (std::vector<double>{0.9, 0.999}));
  EXPECT_EQ(setting.at("clip_range"), (std::vector<double>{0.05, 20.0}));
  EXPECT_EQ(setting.at("learning_rate"), "1/sqrt(t)");
}

TEST(ConvergenceExperiment, ADataSetIsAnError) {
  adaact::ExperimentForm form;
  form.dataset = "cifar10";
  EXPECT_TRUE(contains(error_of([&] { adaact::theory_convergence().plan(form); }),
                       "has its own small problem and no data set; 'cifar10' means nothing"));
}

}  // namespace
