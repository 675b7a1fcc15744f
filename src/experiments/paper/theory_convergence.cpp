#include <torch/torch.h>

#include "experiments/measure/convergence.h"
#include "experiments/paper/catalog.h"
#include "report/format.h"

namespace adaact {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kSteps = 1 << 16;
constexpr std::int64_t kQuickSteps = 1 << 11;
/// The rate is one of large T: the exponents are fitted from here on.
constexpr std::int64_t kFirstFitted = 512;
/// Measured on two cores of an AMD EPYC virtual machine, LibTorch 1.13.1: 73 s for five seeds.
constexpr double kSecondsPerStep = 73.0 / 5 / (1 << 16);

Measured measure(std::int64_t steps, std::uint64_t seed,
                 const std::function<void(const std::string&)>& progress) {
  const auto norms = squared_gradient_norms(steps, seed, progress);
  Measured measured;
  measured.values = {{"iterations", norms.iterations}, {"squared_gradient_norms", norms.values}};
  return measured;
}

IterationCurve curve_of(const Measured& measured) {
  return {measured.values.at("iterations").get<std::vector<std::int64_t>>(),
          measured.values.at("squared_gradient_norms").get<std::vector<double>>()};
}

void check_curve(const Measured& measured, std::int64_t steps) {
  const auto curve = curve_of(measured);
  TORCH_CHECK(curve.iterations == iterations_with_gradients(steps),
              "'iterations' are not those up to ", steps);
  TORCH_CHECK(curve.values.size() == curve.iterations.size(), "'squared_gradient_norms' are ",
              curve.values.size(), ", expected ", curve.iterations.size());
}

/// What all seeds that were measured say together.
struct Result {
  std::size_t seeds = 0;
  SmallestGradients gradients;
  double exponent = 0.0;           // from kFirstFitted on
  double exponent_of_bound = 0.0;  // likewise
  double factor = 0.0;             // Q
};

std::optional<Result> result_of(const Found& found) {
  std::vector<IterationCurve> curves;
  for (const auto& [planned, measured] : found.measurements) {
    if (measured) curves.push_back(curve_of(*measured));
  }
  if (curves.empty()) return std::nullopt;
  Result result;
  result.seeds = curves.size();
  result.gradients = smallest_gradients(curves);
  const auto& minimum = result.gradients.minimum;
  const auto fitted = part_from(kFirstFitted, minimum);
  result.exponent = fitted_exponent(fitted);
  result.exponent_of_bound = fitted_exponent(corollary_rate(fitted.iterations));
  result.factor = smallest_factor(minimum);
  return result;
}

std::vector<Point> points_of(const IterationCurve& curve, double factor = 1.0) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < curve.iterations.size(); ++i) {
    points.push_back({static_cast<double>(curve.iterations[i]), factor * curve.values[i]});
  }
  return points;
}

Plot plot_of(const Result& result) {
  Plot plot{"Smallest gradient so far", {"iterations T"}, {"min E‖∇f‖², t ≤ T"}, {}};
  plot.x.scale = Scale::Logarithmic;
  plot.x.tight = true;
  plot.y.scale = Scale::Logarithmic;
  const auto& minimum = result.gradients.minimum;
  plot.series.push_back({"AdaAct", points_of(minimum), 0});
  plot.series.push_back(
      {"Q log T / √T", points_of(corollary_rate(minimum.iterations), result.factor), 1});
  return plot;
}

Table table_of(const Result& result) {
  Table table{"Smallest gradient so far", {}, {}};
  for (const char* heading : {"T", "min E‖∇f‖²", "Standard error", "Q log T / √T"}) {
    table.heading.push_back({text(heading), "number"});
  }
  const auto& minimum = result.gradients.minimum;
  const auto rate = corollary_rate(minimum.iterations);
  for (std::size_t i = 0; i < minimum.iterations.size(); ++i) {
    table.rows.push_back({{text(grouped(minimum.iterations[i])), "number"},
                          {text(rounded(minimum.values[i])), "number"},
                          {text(rounded(result.gradients.standard_errors[i])), "number"},
                          {text(rounded(result.factor * rate.values[i])), "number"}});
  }
  return table;
}

class Convergence : public Experiment {
 public:
  std::string name() const override { return "theory-convergence"; }
  std::string title() const override { return "The corollary: the rate of convergence"; }
  std::string shows() const override {
    return "min E‖∇f‖² of a nonconvex problem beside the bound O(log T / √T)";
  }

  ExperimentPlan plan(const ExperimentForm& form) const override {
    TORCH_CHECK(form.dataset.empty(), "adaact: ", name(),
                " has its own small problem and no data set; '", form.dataset,
                "' means nothing to it");
    const auto steps = form.quick ? kQuickSteps : kSteps;
    auto seeds = form.seeds;
    if (seeds.empty()) seeds = {200, 201, 202, 203, 204};
    ExperimentPlan plan;
    for (const auto seed : seeds) {
      auto setting = convergence_setting();
      setting["steps"] = steps;
      setting["seed"] = seed;
      plan.measurements.push_back(
          {"gradient norms",
           setting,
           std::nullopt,
           [=](const Machine& /*machine*/, const std::filesystem::path& /*model_file*/,
               const auto& progress) { return measure(steps, seed, progress); },
           {},
           kSecondsPerStep * static_cast<double>(steps),
           {},
           [=](const Measured& measured) { check_curve(measured, steps); }});
    }
    return plan;
  }

  void draw(const Found& found, Page& page) const override {
    const auto result = result_of(found);
    if (!result) return;
    page.add_paragraph(
        "A linear layer of 6 inputs and 4 outputs under Cauchy's loss, 256 samples, batches of 8: "
        "smooth, not convex, with bounded gradients. AdaAct with η_t = 1/√t, β₁ = 0.9, no weight "
        "decay, and second moments clipped to [0.05, 20]. Seeds of the noise, over which E "
        "is the mean: " +
        std::to_string(result->seeds) + ".");
    page.add_figures({page.figure(plot_of(*result), "convergence",
                                  "Q = " + rounded(result->factor) +
                                      " is the smallest with which the bound holds everywhere.")});
    page.add_table(table_of(*result));
  }

  std::vector<Finding> findings(const Found& found) const override {
    if (!found.is_complete()) return {};
    const auto result = *result_of(found);
    const bool agrees = result.exponent <= result.exponent_of_bound;
    return {{"min E‖∇f‖² falls at least as fast as log T / √T.",
             "From T = " + grouped(kFirstFitted) + " to " +
                 grouped(result.gradients.minimum.iterations.back()) + " it falls like T^" +
                 fixed(result.exponent, 2) + ", log T / √T over the same range like T^" +
                 fixed(result.exponent_of_bound, 2) +
                 ". Agrees where the first exponent is not above the second.",
             agrees ? Finding::Verdict::Agrees : Finding::Verdict::Disagrees}};
  }

  nlohmann::ordered_json to_json(const Found& found) const override {
    const auto result = result_of(found);
    if (!result) return ordered_json::object();
    return {{"seeds", result->seeds},
            {"horizons", result->gradients.minimum.iterations},
            {"minimum", result->gradients.minimum.values},
            {"standard_errors", result->gradients.standard_errors},
            {"exponents_from", kFirstFitted},
            {"exponent", result->exponent},
            {"exponent_of_bound", result->exponent_of_bound},
            {"smallest_factor", result->factor}};
  }
};

}  // namespace

const Experiment& theory_convergence() {
  static const Convergence experiment;
  return experiment;
}

}  // namespace adaact
