#include "experiments/measure/step_sizes.h"
#include "experiments/page/training_phases.h"

#include <cmath>

#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/optim/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "experiments/measure/neighbouring_data.h"
#include "experiments/paper/catalog.h"
#include "support/errors.h"
#include "support/made_up_found.h"
#include "support/made_up_measurements.h"
#include "train/run/run_parts.h"

namespace {

using namespace adaact::testing;
using adaact::Dataset;
using adaact::Finding;
using adaact::Measured;
using adaact::NeighbouringDataset;
using adaact::RunConfig;
using adaact::Split;
using adaact::StepRecord;

constexpr std::int64_t kWorkers = 0;
constexpr double kBeta2 = 0.999;
constexpr double kEps = 1e-8;

std::shared_ptr<Dataset> images(std::int64_t size, Split split = Split::Train) {
  adaact::SyntheticOptions options;
  options.size = size;
  options.shape = {1, 28, 28};
  options.split = split;
  return adaact::make_synthetic(options);
}

RunConfig small_config(const std::string& model) {
  RunConfig config;
  config.model = model;
  config.optimizer_options = R"({"lr": 0.1})";
  config.augment = false;
  config.epochs = 2;
  config.batch_size = 16;
  config.seed = 3;
  return config;
}

/// The step of the first epoch, counted from 0, in which a sample is seen.
std::size_t step_that_sees(std::int64_t sample, const std::shared_ptr<Dataset>& data,
                           const RunConfig& config) {
  adaact::Loader loader(data, adaact::loader_options(config, kWorkers, Split::Train));
  std::size_t step = 0;
  for (loader.start(0); const auto batch = loader.next(); ++step) {
    if (batch->samples.eq(sample).any().item<bool>()) return step;
  }
  ADD_FAILURE() << "no batch has it";
  return step;
}

TEST(NeighbouringDataset, DiffersInOneSample) {
  const auto original = images(20);
  const auto others = images(20, Split::Test);
  const NeighbouringDataset neighbour(original, 7, *others, 12);
  ASSERT_EQ(neighbour.size(), 20);
  const auto pixels_of = [](const Dataset& data, std::int64_t index) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(data.shape().bytes()));
    data.read(index, pixels.data());
    return pixels;
  };
  for (std::int64_t index = 0; index < 20; ++index) {
    const bool replaced = index == 7;
    const auto& expected = replaced ? *others : *original;
    const auto place = replaced ? 12 : index;
    EXPECT_EQ(neighbour.label(index), expected.label(place));
    EXPECT_EQ(pixels_of(neighbour, index), pixels_of(expected, place));
    EXPECT_EQ(*neighbour.pixels(index), pixels_of(expected, place).front());
  }
  EXPECT_NE(pixels_of(neighbour, 7), pixels_of(*original, 7));
}

TEST(StepRecord, KeepsFirstStepsMeansAndMaxima) {
  StepRecord record;
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (int step = 0; step < 100; ++step) record.add(epoch + (step == 50 ? 100 : 0));
    record.end_epoch();
  }
  EXPECT_EQ(record.first_steps().size(), 200U);
  EXPECT_DOUBLE_EQ(record.first_steps()[150], 101.0);
  EXPECT_DOUBLE_EQ(record.means()[4], 5.0);
  EXPECT_DOUBLE_EQ(record.maxima()[4], 104.0);
  EXPECT_DOUBLE_EQ(adaact::mean_of_first_tenth(record.means()), 1.5);
  EXPECT_DOUBLE_EQ(adaact::mean_of_last_tenth(record.means()), 19.5);
  EXPECT_DOUBLE_EQ(adaact::mean_of_second_tenth(record.means()), 3.5);
  EXPECT_DOUBLE_EQ(adaact::mean_of_second_tenth({7.0}), 7.0);
  EXPECT_EQ(StepRecord::from_json(record.to_json()).to_json(), record.to_json());
}

/// What every layer reads in three steps, from the images and the weights alone.
TEST(StepSizeChanges, AgreeWithAComputationByHand) {
  auto config = small_config("mlp");
  config.epochs = 3;  // of one step each: the cosine gives every step its own rate
  const auto data = images(16);
  const auto changes = adaact::step_size_changes(config, data, kWorkers, say_nothing);

  torch::manual_seed(config.seed);
  auto model = adaact::build_model(config, *data);
  adaact::AdaAct optimizer(*model, adaact::AdaActOptions(0.1));
  const auto parameters = model->named_parameters();
  adaact::Loader loader(data, adaact::loader_options(config, kWorkers, Split::Train));
  const auto schedule = adaact::build_schedule(config, /*steps_per_epoch=*/1);
  const auto hidden_sizes = adaact::default_model_options("mlp").hidden;

  std::vector<torch::Tensor> v(hidden_sizes.size() + 1);  // of each layer's input
  std::vector<torch::Tensor> before(v.size());            // their steps
  std::vector<torch::Tensor> was_live(v.size());
  double rate_before = 0.0;
  double all_half_idle = 0.0;
  for (int t = 1; t <= 3; ++t) {
    const double rate = 0.1 * schedule(t - 1);
    loader.start(t - 1);
    const auto batch = loader.next();
    auto input = batch->images.flatten(1);
    double change_sum = 0.0;
    double awake_change_sum = 0.0;
    double awake_step_sum = 0.0;
    double awake_weights = 0.0;
    double root_change_sum = 0.0;
    double growing = 0.0;
    double weights = 0.0;
    double half_idle = 0.0;
    for (std::size_t layer = 0; layer < v.size(); ++layer) {
      const auto name = "fc" + std::to_string(layer + 1);
      const auto& weight = parameters[name + ".weight"];
      const auto mean_square = input.detach().to(torch::kFloat64).square().mean(0);  // Ã_t
      v[layer] = (v[layer].defined() ? kBeta2 * v[layer] : torch::zeros_like(mean_square)) +
                 (1.0 - kBeta2) * mean_square;
      const auto v_hat = v[layer] / (1.0 - std::pow(kBeta2, t));
      const auto is_live = (v_hat >= adaact::kIdle).to(torch::kFloat64);
      const auto step = rate / (v_hat.sqrt() + kEps);
      if (t > 1) {
        const auto rows = static_cast<double>(weight.size(0));
        const auto live = torch::maximum(is_live, was_live[layer]);
        half_idle += is_live.ne(was_live[layer]).sum().item<double>();
        change_sum += rows * (live * (step - before[layer]).abs()).sum().item<double>();
        const auto awake = torch::minimum(is_live, was_live[layer]);
        awake_change_sum += rows * (awake * (step - before[layer]).abs()).sum().item<double>();
        awake_step_sum += rows * (awake * step).sum().item<double>();
        awake_weights += rows * awake.sum().item<double>();
        root_change_sum +=
            rows * (awake * (step / rate - before[layer] / rate_before).abs()).sum().item<double>();
        growing += rows * (live * (step > before[layer])).sum().item<double>();
        weights += rows * live.sum().item<double>();
      }
      before[layer] = step;
      was_live[layer] = is_live;
      input = torch::linear(input, weight, parameters[name + ".bias"]).relu();
    }
    optimizer.param_groups()[0].options().set_lr(rate);
    optimizer.zero_grad();
    torch::cross_entropy_loss(model->forward(batch->images), batch->labels).backward();
    optimizer.step();
    rate_before = rate;
    if (t == 1) continue;
    const auto index = static_cast<std::size_t>(t - 2);
    EXPECT_NEAR(changes.change.first_steps()[index] * weights / change_sum, 1.0, 1e-4);
    EXPECT_NEAR(changes.awake_change.first_steps()[index] * awake_weights / awake_change_sum, 1.0,
                1e-4);
    EXPECT_NEAR(changes.awake_step.first_steps()[index] * awake_weights / awake_step_sum, 1.0,
                1e-4);
    EXPECT_NEAR(
        changes.awake_root_change.first_steps()[index] * awake_step_sum / rate / root_change_sum,
        1.0, 1e-4);
    EXPECT_NEAR(changes.growing.first_steps()[index], growing / weights, 1e-3);
    EXPECT_EQ(changes.idle_in_one.first_steps()[index], half_idle);
    all_half_idle += half_idle;
  }
  EXPECT_GT(all_half_idle, 0.0) << "else nothing tells awake inputs from all";
}

TEST(NeighbourDifferences, OfEqualDataAreExactlyZero) {
  const auto differences = adaact::neighbour_differences(small_config("lenet5"), images(64),
                                                         images(64), kWorkers, say_nothing);
  for (const auto* record : {&differences.term_a, &differences.term_b, &differences.delta}) {
    EXPECT_EQ(record->maxima(), (std::vector<double>{0.0, 0.0}));
  }
  EXPECT_GT(differences.root_norm.means().front(), 0.0);
}

TEST(NeighbourDifferences, BeginWithTheStepThatSeesTheOtherSample) {
  constexpr std::int64_t kReplaced = 5;
  const auto config = small_config("lenet5");
  const auto data = images(96);
  const auto neighbour =
      std::make_shared<NeighbouringDataset>(data, kReplaced, *images(10, Split::Test), 0);
  const auto differences =
      adaact::neighbour_differences(config, data, neighbour, kWorkers, say_nothing);

  const auto first = step_that_sees(kReplaced, data, config);
  ASSERT_GT(first, 0U) << "there must be something before it: take another seed";
  const auto& deltas = differences.delta.first_steps();
  const auto& terms_b = differences.term_b.first_steps();
  double term_b = 0.0;
  for (std::size_t step = 0; step < deltas.size(); ++step) {
    const auto term_a = differences.term_a.first_steps()[step];
    const auto root_norm = differences.root_norm.first_steps()[step];
    if (differences.idle_in_one.first_steps()[step] == 0.0) {
      EXPECT_EQ(differences.awake_term_a.first_steps()[step], term_a) << "step " << step;
      EXPECT_EQ(differences.awake_root_norm.first_steps()[step], root_norm) << "step " << step;
    } else {
      EXPECT_LT(differences.awake_term_a.first_steps()[step], term_a) << "step " << step;
      EXPECT_LT(differences.awake_root_norm.first_steps()[step], root_norm) << "step " << step;
    }
    if (step < first) {
      EXPECT_EQ(deltas[step], 0.0) << "step " << step;
      EXPECT_EQ(term_a, 0.0) << "step " << step;
    } else {
      EXPECT_GT(deltas[step], 0.0) << "step " << step;
      EXPECT_GT(term_a, 0.0) << "step " << step;
    }
    term_b = 0.9 * term_b + 0.1 * (step == 0 ? 0.0 : deltas[step - 1]);
    EXPECT_DOUBLE_EQ(terms_b[step], term_b);
  }
}

TEST(NeighbourDifferences, EndWithWhatProgressThrows) {
  EXPECT_THROW(adaact::neighbour_differences(small_config("lenet5"), images(32), images(32),
                                             kWorkers, [](const std::string&) { throw 1; }),
               int);
}

double unchanged(int /*epoch*/) { return 1.0; }
double settling(int epoch) { return std::pow(0.7, epoch); }

template <typename Factor>
nlohmann::ordered_json changing_from(double value, Factor factor) {
  StepRecord record;
  for (int epoch = 0; epoch < 20; ++epoch) {
    record.add(value * factor(epoch));
    record.end_epoch();
  }
  return record.to_json();
}

/// As the learning rate falls by the cosine, times a number of the epoch.
nlohmann::ordered_json annealed_from(double value, double (*factor)(int)) {
  return changing_from(value, [factor](int epoch) {
    return 0.5 * (1.0 + std::cos(M_PI * epoch / 20.0)) * factor(epoch);
  });
}

nlohmann::ordered_json constant(double value) { return changing_from(value, unchanged); }

std::vector<Measured> made_up_step_sizes(double term_a, double (*change)(int) = settling) {
  Measured changes;
  changes.values = {{"change", annealed_from(1e-3, change)},
                    {"awake_change", annealed_from(5e-4, change)},
                    {"awake_step", annealed_from(0.1, unchanged)},
                    {"awake_root_change", changing_from(0.01, change)},
                    {"growing", constant(0.25)},
                    {"idle_inputs", constant(3.0)},
                    {"inputs_idle_in_one", constant(0.25)}};
  Measured differences;
  differences.values = {{"term_a", constant(term_a)},
                        {"root_norm", constant(10.0)},
                        {"awake_term_a", constant(term_a / 2)},
                        {"awake_root_norm", constant(10.0)},
                        {"term_b", constant(0.5)},
                        {"delta", constant(2.0)},
                        {"norm", constant(20.0)},
                        {"idle_inputs", constant(0.0)},
                        {"inputs_idle_in_one", constant(0.0)}};
  return {changes, differences};
}

TEST(StepSizeFigure, DrawsBothSides) {
  const auto& experiment = adaact::fig_step_size();
  const auto html = drawn(experiment, found_measurements(experiment, made_up_step_sizes(1.0)));
  for (const char* figure :
       {"step_change.png", "neighbours_term_a.png", "neighbours_delta.png", "neighbours_sum.png"}) {
    EXPECT_TRUE(contains(html, figure));
  }
  EXPECT_TRUE(contains(html, "(v̂ &lt; 1e-06)"));
  EXPECT_TRUE(
      contains(html, "3.0 in the mean, left out; idle on one side only, and not left out: "));
}

TEST(StepSizeFigure, RecordsThatCannotBeDrawnAreErrors) {
  const auto plan = adaact::fig_step_size().plan({});
  const auto measured = made_up_step_sizes(1.0);
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& check = plan.measurements.at(side).check;
    check(measured[side]);
    for (const auto& [name, record] : measured[side].values.items()) {
      auto empty = measured[side];
      empty.values[name] = {{"first_steps", {1.0}},
                            {"epoch_means", nlohmann::ordered_json::array()},
                            {"epoch_maxima", nlohmann::ordered_json::array()}};
      EXPECT_TRUE(contains(error_of([&] { check(empty); }), "means of 0 epochs")) << name;
      auto missing = measured[side];
      missing.values.erase(name);
      EXPECT_TRUE(contains(error_of([&] { check(missing); }), name)) << name;
    }
  }
  auto shorter = measured[1];
  for (const char* part : {"epoch_means", "epoch_maxima"}) {
    shorter.values["root_norm"][part].erase(0);
  }
  EXPECT_TRUE(contains(error_of([&] { plan.measurements[1].check(shorter); }),
                       "records of steps are of 20 and 19 epochs"));
}

TEST(StepSizeFigure, AChangeThatFallsWithTheLearningRateAloneIsNotEnough) {
  const auto& experiment = adaact::fig_step_size();
  const auto with_rate =
      experiment.findings(found_measurements(experiment, made_up_step_sizes(0.05, unchanged)));
  EXPECT_EQ(with_rate[0].verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(with_rate[0].measured,
                       "the change goes from 0.01 to 0.01, and was 0.01 in the second tenth"))
      << with_rate[0].measured;
  auto measured = made_up_step_sizes(0.05);
  measured[0].values["awake_change"] = constant(1e-3);
  const auto not_at_all = experiment.findings(found_measurements(experiment, measured));
  EXPECT_EQ(not_at_all[0].verdict, Finding::Verdict::Disagrees);
}

TEST(StepSizeFigure, NamesTheSeedWhereThereAreSeveral) {
  const auto& experiment = adaact::fig_step_size();
  adaact::ExperimentForm form;
  form.seeds = {4, 5};
  adaact::Found found;
  const auto measured = made_up_step_sizes(0.05);
  for (const auto& planned : experiment.plan(form).measurements) {
    found.measurements.push_back({planned, measured[found.measurements.size() % 2]});
  }
  const auto findings = experiment.findings(found);
  ASSERT_EQ(findings.size(), 8U);
  EXPECT_EQ(findings[0].claim.rfind("Seed 4: ", 0), 0U);
  EXPECT_EQ(findings[7].claim.rfind("Seed 5: ", 0), 0U);
}

TEST(StepSizeFigure, ItsSettingHasEveryOptionOfTheOptimizer) {
  const auto options =
      adaact::fig_step_size().plan({}).measurements[0].setting.at("optimizer_options");
  for (const char* option : {"lr", "betas", "eps", "power", "clip_range"}) {
    EXPECT_TRUE(options.contains(option)) << option;
  }
}

TEST(StepSizeFigure, AgreesOrNotByItsCriteria) {
  const auto& experiment = adaact::fig_step_size();
  const auto small = experiment.findings(found_measurements(experiment, made_up_step_sizes(0.05)));
  ASSERT_EQ(small.size(), 4U);
  EXPECT_EQ(small[0].verdict, Finding::Verdict::Agrees) << "less than a hundredth is left";
  EXPECT_EQ(small[1].verdict, Finding::Verdict::Disagrees) << "a quarter of the steps grows";
  EXPECT_EQ(small[2].verdict, Finding::Verdict::Agrees) << "0.5 % of the norm";
  EXPECT_EQ(small[3].verdict, Finding::Verdict::Open);
  EXPECT_TRUE(contains(small[2].measured, "awake under both data sets from 0.25 % to 0.25 %"));
  EXPECT_TRUE(contains(small[3].measured, "from 10.00 % to 10.00 %"));
  const auto large = experiment.findings(found_measurements(experiment, made_up_step_sizes(1.0)));
  EXPECT_EQ(large[2].verdict, Finding::Verdict::Disagrees) << "10 % of the norm";
  EXPECT_TRUE(experiment.findings(found_measurements(experiment, {})).empty());
}

}  // namespace
