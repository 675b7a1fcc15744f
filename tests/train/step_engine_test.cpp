#include "train/step/step_engine.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <adaact/data/synthetic.h>
#include <adaact/models/registry.h>
#include <adaact/optim/registry.h>
#include <adaact/ranks/communicator.h>
#include <adaact/train/evaluate.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using namespace adaact;

/// Five batches of four images, the last one of two.
class EngineParts {
 public:
  EngineParts() {
    torch::manual_seed(5);
    auto options = default_model_options("mlp");
    options.hidden = {12};
    model = make_model("mlp", options);
    optimizer = make_optimizer("sgd", *model);
  }

  TrainingTask task() { return {*model, *optimizer, data, data, {}}; }

  static Loader loader() {
    SyntheticOptions synthetic;
    synthetic.size = 18;
    synthetic.shape = {1, 28, 28};
    LoaderOptions options;
    options.batch_size = 4;
    return {make_synthetic(synthetic), options};
  }

  Loader data = loader();
  std::shared_ptr<Model> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

constexpr double kNoClipping = std::numeric_limits<double>::infinity();

/// One rank that takes part in every sum, and counts how often somebody is about to wait for its GPU.
class RankThatIsWaitedFor : public Communicator {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return 1; }
  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    return process_->begin_sum(std::move(tensors));
  }
  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override {
    process_->broadcast(tensors, root);
  }
  bool is_alone() const override { return false; }
  void wait_for_stream() override { ++waits_; }

  std::int64_t waits() const { return waits_; }

 private:
  const std::shared_ptr<Communicator> process_ = single_process();
  std::int64_t waits_ = 0;
};

TEST(EagerEngine, EntersAnEpochAndTellsWhatEachStepTook) {
  EngineParts parts;
  const auto made = make_eager_engine(parts.task(), /*accumulation=*/3, kNoClipping);
  auto& engine = *made;
  EXPECT_EQ(engine.most_unread(), 1);
  engine.start(/*epoch=*/1, /*first_batch=*/0);
  engine.take_step();
  const auto first = engine.read();
  ASSERT_EQ(first.steps.size(), 1U);
  EXPECT_EQ(first.steps[0].images, 12);
  EXPECT_EQ(first.steps[0].batches, 3);
  EXPECT_FALSE(first.rejection);
  EXPECT_TRUE(engine.second_moments().empty()) << "it is not the last step";
  engine.take_step();
  const auto last = engine.read().steps.at(0);
  EXPECT_EQ(last.images, 6);
  EXPECT_EQ(last.batches, 2);
  EXPECT_EQ(engine.second_moments().size(), 2U);

  EngineParts again;
  const auto entered = make_eager_engine(again.task(), /*accumulation=*/3, kNoClipping);
  entered->start(/*epoch=*/1, /*first_batch=*/3);
  entered->take_step();
  EXPECT_EQ(entered->read().steps.at(0).images, 6);
  EXPECT_EQ(entered->second_moments()[0].second, engine.second_moments()[0].second)
      << "of the images themselves";
}

/// How often a number is read from a tensor, for which the host would have to wait for a GPU.
class ReadNumbers {
 public:
  ReadNumbers() {
    count() = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          if (std::string(function.name()) == "aten::_local_scalar_dense") ++count();
          return nullptr;
        }));
  }
  ~ReadNumbers() { at::removeCallback(handle_); }
  ReadNumbers(const ReadNumbers&) = delete;
  ReadNumbers& operator=(const ReadNumbers&) = delete;

  static int& count() {
    static thread_local int count = 0;
    return count;
  }

 private:
  at::CallbackHandle handle_;
};

TEST(EagerEngine, WaitsForNoSingleBatchOfAStep) {
  {
    const auto two = torch::full({1}, 2.0);
    const ReadNumbers read;
    two.item<double>();
    EXPECT_EQ(ReadNumbers::count(), 1) << "or this test could not fail";
  }
  const auto numbers_read = [](std::int64_t accumulation) {
    EngineParts parts;
    const auto engine = make_eager_engine(parts.task(), accumulation, kNoClipping);
    engine->start(/*epoch=*/0, /*first_batch=*/0);
    const ReadNumbers read;
    engine->take_step();
    return ReadNumbers::count();
  };
  EXPECT_EQ(numbers_read(4), numbers_read(1));
}

TEST(EagerEngine, AsksTheOtherRanksBeforeTheHostWaitsForAStep) {
  EngineParts parts;
  const auto rank = std::make_shared<RankThatIsWaitedFor>();
  auto task = parts.task();
  task.ranks = rank;
  ASSERT_FALSE(task.sync_batchnorm);
  const auto engine = make_eager_engine(task, /*accumulation=*/1, kNoClipping);
  engine->start(/*epoch=*/0, /*first_batch=*/0);
  constexpr std::int64_t kSteps = 3;
  for (std::int64_t step = 0; step < kSteps; ++step) engine->take_step();
  EXPECT_GE(rank->waits(), kSteps) << "the sums of a GPU wait for ever for a rank that is gone";
}

TEST(EagerEngine, EvaluatesAsEvaluateDoes) {
  EngineParts parts;
  const auto engine = make_eager_engine(parts.task(), /*accumulation=*/1, kNoClipping);
  const auto ours = engine->evaluate([] { return false; }).value();
  const auto theirs = evaluate(*parts.model, parts.data, torch::kCPU);
  EXPECT_EQ(ours.loss, theirs.loss);
  EXPECT_EQ(ours.top1, theirs.top1);
  EXPECT_EQ(ours.top5, theirs.top5);
  EXPECT_EQ(ours.images, 18);
  EXPECT_FALSE(engine->evaluate([] { return true; }));
}

TEST(ClassificationPass, IsTheMeanLossOfTheStep) {
  EngineParts parts;
  parts.data.start(0);
  const auto batch = parts.data.next().value();
  const auto pass = training_pass(*parts.model, prepared_images(batch, {}), {batch.labels},
                                  batch.size(), PassSettings());
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : parts.model->parameters()) {
    gradients.push_back(parameter.grad().clone());
  }
  parts.model->zero_grad();
  const auto logits = parts.model->forward(batch.images);
  const auto loss = torch::cross_entropy_loss(logits, batch.labels);
  loss.backward();
  EXPECT_EQ(pass.loss.item<double>(), loss.item<double>());
  const auto correct = pass.correct({batch.labels});
  EXPECT_EQ(correct.item<std::int64_t>(),
            logits.argmax(1).eq(batch.labels).sum().item<std::int64_t>());
  EXPECT_FALSE(pass.loss.requires_grad());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_TRUE(torch::equal(gradients[i], parts.model->parameters()[i].grad()));
  }
}

}  // namespace
