// Training with steps in CUDA graphs against training without. Skips, visibly, where there is
// no GPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/models/weights.h>
#include <adaact/optim/named_state.h>
#include <adaact/optim/non_finite.h>
#include <adaact/optim/registry.h>
#include <adaact/train/trainer.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cuda/optimizer_cases.h"
#include "optim/base/step_parts.h"
#include "train/graph/fill_nodes_cuda.h"
#include "train/run/run_parts.h"

namespace {

using namespace adaact;
using adaact::testing::kOptimizerCases;
using adaact::testing::OptimizerCase;

/// Keeps what a training said.
class Record : public TrainingCallback {
 public:
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    steps.push_back(metrics);
  }
  void on_epoch(const Trainer& /*trainer*/, const EpochMetrics& metrics) override {
    epochs.push_back(metrics);
  }
  std::vector<StepMetrics> steps;
  std::vector<EpochMetrics> epochs;
};

NamedTensors copies_of(const Model& model) {
  NamedTensors copies;
  for (const auto& [name, tensor] : state_tensors(model)) {
    copies.emplace_back(name, tensor.detach().cpu().clone());
  }
  return copies;
}

void put_back(const NamedTensors& copies, Model& model) {
  const auto tensors = state_tensors(model);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    tensors[i].second.detach().copy_(copies[i].second);
  }
}

/// Makes the model useless after one step and puts it back after another.
class Poison : public TrainingCallback {
 public:
  Poison(Model& model, std::int64_t after, std::int64_t until)
      : model_(model), before_(copies_of(model)), after_(after), until_(until) {
    if (after_ == 0) spoil();
  }
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == after_) spoil();
    if (metrics.step == until_) put_back(before_, model_);
  }

 private:
  void spoil() { model_.parameters()[0].detach().fill_(std::numeric_limits<float>::quiet_NaN()); }

  Model& model_;
  NamedTensors before_;
  std::int64_t after_;
  std::int64_t until_;
};

/// Sets what a trainer asks for after a step.
class StopAfter : public TrainingCallback {
 public:
  StopAfter(std::int64_t step, bool& stops) : step_(step), stops_(stops) {}
  void on_step(const Trainer& /*trainer*/, const StepMetrics& metrics) override {
    if (metrics.step == step_) stops_ = true;
  }

 private:
  std::int64_t step_;
  bool& stops_;
};

struct Outcome {
  Record record;
  NamedTensors weights;
};

/// How it is trained, but for the optimizer.
struct Setting {
  LoaderOptions train_data = LoaderOptions::training();
  LoaderOptions test_data = LoaderOptions::evaluation();
  TrainerOptions trainer;
};
using Change = std::function<void(Setting&)>;

/// What is trained: ResNet-20 in four epochs of five batches, the last one smaller.
class Training {
 public:
  Training(
      const OptimizerCase& optimizer_case, bool graph, bool bf16,
      const std::string& more_options = "{}", bool channels_last = false,
      const Change& change = [](Setting&) {}) {
    torch::manual_seed(11);
    SyntheticOptions synthetic;
    synthetic.size = 150;
    const std::shared_ptr<Dataset> data = make_synthetic(synthetic);
    Setting setting;
    setting.train_data.batch_size = 32;
    setting.test_data.batch_size = 32;
    auto model_options = default_model_options("resnet20");
    model_options.classes = data->classes();
    model = make_model("resnet20", model_options);
    model->to(torch::kCUDA);
    if (channels_last) lay_out_channels_last(*model);
    optimizer =
        make_optimizer(optimizer_case.optimizer, *model, optimizer_case.options_with(more_options));
    auto& trainer_options = setting.trainer;
    trainer_options.epochs = 4;
    trainer_options.bf16 = bf16;
    trainer_options.device = torch::Device(torch::kCUDA, 0);
    trainer_options.update_norm_every = 4;
    trainer_options.schedule = cosine_schedule(20);
    trainer_options.graph = graph;
    trainer_options.activation_variances = true;
    trainer_options.channels_last = channels_last;
    trainer_options.label_smoothing = channels_last ? 0.1 : 0.0;
    change(setting);
    train_loader_ = std::make_unique<Loader>(data, setting.train_data);
    test_loader_ = std::make_unique<Loader>(data, setting.test_data);
    trainer = std::make_unique<Trainer>(*model, *optimizer, *train_loader_, *test_loader_,
                                        trainer_options);
    trainer->add_callback(record);
  }

  Outcome run() {
    EXPECT_TRUE(trainer->run());
    return {record, copies_of(*model)};
  }

  Record record;
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;

 private:
  std::unique_ptr<Loader> train_loader_;
  std::unique_ptr<Loader> test_loader_;
};

class GraphTraining : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setBenchmarkCuDNN(false);
    at::globalContext().setAllowTF32CuDNN(false);
  }

  static Outcome train(const OptimizerCase& optimizer_case, bool graph, bool bf16) {
    return Training(optimizer_case, graph, bf16).run();
  }

  static void expect_same_variances(const std::vector<ActivationVariance>& graph,
                                    const std::vector<ActivationVariance>& eager,
                                    double tolerance) {
    ASSERT_FALSE(eager.empty());
    ASSERT_EQ(graph.size(), eager.size());
    for (std::size_t layer = 0; layer < eager.size(); ++layer) {
      const auto& ours = graph[layer];
      const auto& theirs = eager[layer];
      EXPECT_EQ(ours.layer, theirs.layer);
      EXPECT_NEAR(ours.mean, theirs.mean, tolerance * theirs.mean);
      EXPECT_NEAR(ours.lowest_mean, theirs.lowest_mean, tolerance * theirs.mean);
      EXPECT_NEAR(ours.highest_mean, theirs.highest_mean, tolerance * theirs.mean);
      EXPECT_NEAR(ours.lowest, theirs.lowest, tolerance * theirs.mean);
      EXPECT_NEAR(ours.highest, theirs.highest, tolerance * theirs.mean);
      EXPECT_NEAR(ours.lowest_moment, theirs.lowest_moment, tolerance * theirs.mean);
      EXPECT_NEAR(ours.highest_moment, theirs.highest_moment, tolerance * theirs.highest_moment);
    }
  }

  static void expect_same(const Outcome& graph, const Outcome& eager, double tolerance) {
    ASSERT_EQ(graph.record.steps.size(), eager.record.steps.size());
    for (std::size_t i = 0; i < eager.record.steps.size(); ++i) {
      SCOPED_TRACE("step " + std::to_string(i + 1));
      const auto& ours = graph.record.steps[i];
      const auto& theirs = eager.record.steps[i];
      EXPECT_EQ(ours.step, theirs.step);
      EXPECT_EQ(ours.learning_rate, theirs.learning_rate);
      EXPECT_NEAR(ours.loss, theirs.loss, tolerance * (1.0 + theirs.loss));
      EXPECT_EQ(ours.gradient_norm, theirs.gradient_norm);
      EXPECT_EQ(ours.update_norm, theirs.update_norm);
      EXPECT_EQ(ours.top1, theirs.top1);
    }
    ASSERT_EQ(graph.record.epochs.size(), eager.record.epochs.size());
    for (std::size_t i = 0; i < eager.record.epochs.size(); ++i) {
      const auto& ours = graph.record.epochs[i];
      const auto& theirs = eager.record.epochs[i];
      EXPECT_NEAR(ours.test.loss, theirs.test.loss, tolerance * (1.0 + theirs.test.loss));
      EXPECT_EQ(ours.test.top1, theirs.test.top1);
      EXPECT_EQ(ours.test.top5, theirs.test.top5);
      EXPECT_EQ(ours.train_top1, theirs.train_top1);
      ASSERT_EQ(ours.second_moments.size(), theirs.second_moments.size());
      for (std::size_t layer = 0; layer < theirs.second_moments.size(); ++layer) {
        EXPECT_EQ(ours.second_moments[layer].first, theirs.second_moments[layer].first);
        EXPECT_NEAR(ours.second_moments[layer].second, theirs.second_moments[layer].second,
                    tolerance * (1.0 + theirs.second_moments[layer].second));
      }
      expect_same_variances(ours.activation_variances, theirs.activation_variances, tolerance);
    }
    for (std::size_t i = 0; i < eager.weights.size(); ++i) {
      const auto difference = (graph.weights[i].second.to(torch::kFloat64) -
                               eager.weights[i].second.to(torch::kFloat64))
                                  .abs()
                                  .max()
                                  .item<double>();
      EXPECT_LE(difference, tolerance) << eager.weights[i].first;
    }
  }
};

TEST_P(GraphTraining, IsWhatTrainingWithoutGraphsIs) {
  const auto graph = train(GetParam(), /*graph=*/true, /*bf16=*/false);
  const auto eager = train(GetParam(), /*graph=*/false, /*bf16=*/false);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTraining, InBfloat16Too) {
  const auto graph = train(GetParam(), /*graph=*/true, /*bf16=*/true);
  const auto eager = train(GetParam(), /*graph=*/false, /*bf16=*/true);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTraining, ChannelsLastWithSmoothedLabelsToo) {
  const auto train_like_this = [](bool graph) {
    return Training(GetParam(), graph, /*bf16=*/true, "{}", /*channels_last=*/true).run();
  };
  expect_same(train_like_this(/*graph=*/true), train_like_this(/*graph=*/false), 0.0);
}

TEST_P(GraphTraining, SkipsWhatEagerStepsSkip) {
  const auto train_with_bad_steps = [](bool graph, std::int64_t after, std::int64_t until) {
    Training training(GetParam(), graph, /*bf16=*/false, R"({"non_finite_policy":"skip"})");
    Poison poison(*training.model, after, until);
    training.trainer->add_callback(poison);
    training.run();
    EXPECT_EQ(StepParts::of(*training.optimizer)->skipped_steps(), until - after);
    return copies_of(*training.model);
  };
  // Before there is any state, and in the middle. Steps are read after 3, 4, 7, 8 and so on.
  for (const auto& [after, until] : {std::pair{0, 3}, std::pair{7, 8}}) {
    SCOPED_TRACE(after);
    const auto graph = train_with_bad_steps(/*graph=*/true, after, until);
    const auto eager = train_with_bad_steps(/*graph=*/false, after, until);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_TRUE(torch::equal(graph[i].second, eager[i].second)) << eager[i].first;
    }
  }
}

TEST_P(GraphTraining, TellsOfTheStepsBeforeOneThatIsNotFinite) {
  Training training(GetParam(), /*graph=*/true, /*bf16=*/false);
  Poison poison(*training.model, /*after=*/7, /*until=*/-1);
  training.trainer->add_callback(poison);
  const auto before = copies_of(*training.model);
  EXPECT_THROW(training.trainer->run(), NonFiniteError);
  EXPECT_EQ(training.record.steps.size(), 7U);
  put_back(before, *training.model);
  EXPECT_TRUE(training.trainer->run()) << "it can go on";
  EXPECT_EQ(training.record.steps.size(), 20U);
  for (const auto& step : training.record.steps) EXPECT_TRUE(std::isfinite(step.loss)) << step.step;
}

TEST_P(GraphTraining, GoesOnFromAnotherState) {
  Training training(GetParam(), /*graph=*/true, /*bf16=*/false);
  auto& named = dynamic_cast<HasNamedState&>(*training.optimizer);
  const auto weights = copies_of(*training.model);
  const auto state = named.export_state();
  const auto first = training.run();
  put_back(weights, *training.model);
  named.import_state(state, "the beginning");
  training.trainer->set_state({});
  const auto second = training.run();
  for (std::size_t i = 0; i < first.weights.size(); ++i) {
    EXPECT_TRUE(torch::equal(first.weights[i].second, second.weights[i].second))
        << first.weights[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, GraphTraining, ::testing::ValuesIn(kOptimizerCases),
                         [](const auto& info) { return info.param.name; });

/// Steps of several batches, clipped gradients and batches that a loader makes.
class GraphTrainingOfRecipes : public GraphTraining {
 protected:
  static constexpr bool kGraph = true;

  static Outcome train_changed(bool graph, const Change& change, bool bf16 = false) {
    return Training(GetParam(), graph, bf16, "{}", /*channels_last=*/bf16, change).run();
  }

  /// Three batches and the two that are left of an epoch.
  static void accumulate(Setting& setting) { setting.trainer.accumulation = 3; }

  /// What no kernel makes; in the evaluation too.
  static void feed(Setting& setting) {
    setting.train_data.augment.rand_augment.emplace();
    setting.train_data.augment.erase_probability = 0.5;
    setting.train_data.mix = {0.8, 1.0};
    setting.train_data.workers = 2;
    setting.train_data.pin_memory = true;
    setting.test_data.augment.erase_probability = 0.25;
    setting.test_data.pin_memory = true;
  }

  /// A norm that some steps exceed and others do not.
  static double middle_norm(const std::vector<StepMetrics>& steps) {
    std::vector<double> norms;
    for (const auto& step : steps) norms.push_back(step.gradient_norm);
    const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
    std::nth_element(norms.begin(), middle, norms.end());
    return *middle;
  }

  static void expect_some_are_clipped(const std::vector<StepMetrics>& steps, double largest) {
    const auto clipped = std::count_if(steps.begin(), steps.end(), [&](const StepMetrics& step) {
      return step.gradient_norm > largest;
    });
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, static_cast<std::int64_t>(steps.size()));
  }
};

TEST_P(GraphTrainingOfRecipes, AddsUpTheGradientsOfSeveralBatches) {
  const auto graph = train_changed(kGraph, accumulate);
  const auto eager = train_changed(!kGraph, accumulate);
  EXPECT_EQ(graph.record.steps.size(), 8U);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTrainingOfRecipes, ClipsTheGradientsThatEagerStepsClip) {
  const auto largest = middle_norm(train(GetParam(), !kGraph, /*bf16=*/false).record.steps);
  const auto clip = [largest](Setting& setting) { setting.trainer.clip_norm = largest; };
  const auto graph = train_changed(kGraph, clip);
  const auto eager = train_changed(!kGraph, clip);
  expect_some_are_clipped(eager.record.steps, largest);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTrainingOfRecipes, IsFedByALoader) {
  const auto graph = train_changed(kGraph, feed);
  const auto eager = train_changed(!kGraph, feed);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTrainingOfRecipes, DoesAllOfItAtOnceInBfloat16) {
  const auto change = [](Setting& setting) {
    accumulate(setting);
    feed(setting);
    setting.trainer.clip_norm = 1.0;
  };
  const auto graph = train_changed(kGraph, change, /*bf16=*/true);
  const auto eager = train_changed(!kGraph, change, /*bf16=*/true);
  expect_same(graph, eager, 0.0);
}

TEST_P(GraphTrainingOfRecipes, GoesOnWithinAnEpoch) {
  const auto change = [](Setting& setting) {
    accumulate(setting);
    feed(setting);
    setting.trainer.state_every = 1;  // or all steps of an epoch would be taken at once
  };
  const auto whole = train_changed(!kGraph, change);
  bool stops = false;
  Training training(GetParam(), kGraph, /*bf16=*/false, "{}", /*channels_last=*/false,
                    [&](Setting& setting) {
                      change(setting);
                      setting.trainer.should_stop = [&stops] { return stops; };
                    });
  StopAfter stop(/*step=*/3, stops);
  training.trainer->add_callback(stop);
  EXPECT_FALSE(training.trainer->run());
  EXPECT_EQ(training.trainer->state().batch, 3);
  stops = false;
  expect_same(training.run(), whole, 0.0);
}

TEST_P(GraphTrainingOfRecipes, SkipsClippedStepsThatAreNotFinite) {
  const auto train_with_bad_steps = [](bool graph) {
    Training training(GetParam(), graph, /*bf16=*/false, R"({"non_finite_policy":"skip"})",
                      /*channels_last=*/false, [](Setting& setting) {
                        accumulate(setting);
                        setting.trainer.clip_norm = 1.0;
                        setting.trainer.state_every = 1;
                      });
    Poison poison(*training.model, /*after=*/4, /*until=*/6);
    training.trainer->add_callback(poison);
    training.run();
    EXPECT_EQ(StepParts::of(*training.optimizer)->skipped_steps(), 2);
    return copies_of(*training.model);
  };
  const auto graph = train_with_bad_steps(kGraph);
  const auto eager = train_with_bad_steps(!kGraph);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(torch::equal(graph[i].second, eager[i].second)) << eager[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, GraphTrainingOfRecipes,
                         ::testing::Values(kOptimizerCases[0], kOptimizerCases[7]),
                         [](const auto& info) { return info.param.name; });

/// Fills some bytes and clears others, in a graph; two kernels' work lies between them and around.
TEST(CapturedFills, AreKernelsThatFillTheSameBytes) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const c10::cuda::CUDAStreamGuard own(c10::cuda::getStreamFromPool());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const auto bytes = torch::zeros({1 << 16}, torch::dtype(torch::kUInt8).device(torch::kCUDA));
  auto* const data = bytes.data_ptr<std::uint8_t>();
  const std::vector<std::pair<std::int64_t, std::int64_t>> runs{
      {1, 3}, {17, 1}, {64, 64}, {133, 20000}, {30001, 15}, {40000, 25536}};
  const auto work = [&] {
    bytes.add_(1);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto value = static_cast<int>(i % 2 == 0 ? 0 : 100 + i);
      C10_CUDA_CHECK(cudaMemsetAsync(data + runs[i].first, value,
                                     static_cast<std::size_t>(runs[i].second), stream));
    }
    bytes.add_(1);
  };
  work();  // loads the kernels
  const auto expected = bytes.clone();
  cudaGraph_t graph = nullptr;
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  work();
  C10_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  adaact::replace_fills_by_kernels(graph);
  std::size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(count, runs.size() + 2);
  for (auto* const node : nodes) {
    cudaGraphNodeType type{};
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    EXPECT_EQ(type, cudaGraphNodeTypeKernel);
  }
  cudaGraphExec_t replay = nullptr;
  C10_CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
  bytes.zero_();
  C10_CUDA_CHECK(cudaGraphLaunch(replay, stream));
  EXPECT_TRUE(torch::equal(bytes, expected));
  C10_CUDA_CHECK(cudaGraphExecDestroy(replay));
  C10_CUDA_CHECK(cudaGraphDestroy(graph));
}

}  // namespace
