// Several models in several threads: each optimizer sees its own parameters and nothing else. Also
// run under ThreadSanitizer, which cannot see into libgomp; hence one OpenMP thread.

#include <atomic>
#include <thread>

#include <ATen/Parallel.h>
#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;

class Threads : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  static void run_in_threads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&work, i] {
        at::set_num_threads(1);
        work(i);
      });
    }
    for (auto& thread : threads) thread.join();
  }
};

struct Job {
  SmallNet model;
  std::vector<Batch> batches;
};

std::vector<Job> make_jobs(int count) {
  torch::manual_seed(51);
  std::vector<Job> jobs(static_cast<std::size_t>(count));
  for (auto& job : jobs) {
    for (int i = 0; i < 10; ++i) job.batches.push_back(image_batch(4, torch::kFloat32));
  }
  return jobs;
}

void train(Job& job) {
  AdaAct optimizer(*job.model);
  for (const auto& batch : job.batches) train_step(job.model, optimizer, batch);
  for (const auto& parameter : optimizer.coverage()) {
    EXPECT_EQ(parameter.observed, parameter.name.find("norm") == std::string::npos);
  }
}

TEST_F(Threads, ModelsTrainedAtOnceEqualModelsTrainedOneByOne) {
  auto one_by_one = make_jobs(4);
  auto at_once = make_jobs(4);
  for (std::size_t i = 0; i < one_by_one.size(); ++i) {
    copy_values(one_by_one[i].model, at_once[i].model);
  }
  for (auto& job : one_by_one) train(job);
  run_in_threads(4, [&](int i) { train(at_once[static_cast<std::size_t>(i)]); });
  for (std::size_t i = 0; i < one_by_one.size(); ++i) {
    expect_bit_identical(snapshot(*at_once[i].model), snapshot(*one_by_one[i].model));
  }
}

TEST_F(Threads, OneModelRunForwardInSeveralThreadsAddsUpAllOfThem) {
  torch::nn::Linear model(6, 3);
  model->to(torch::kFloat64);
  AdaAct optimizer(*model);
  const auto x = torch::randn({40, 6}, torch::kFloat64);
  run_in_threads(4, [&](int i) { model->forward(x.narrow(0, 10 * i, 10)); });
  model->weight.mutable_grad() = torch::zeros_like(model->weight);
  optimizer.step();
  EXPECT_TRUE(all_close(optimizer.second_moment(model->weight), x.square().mean(0, true), 1e-13));
}

TEST_F(Threads, OptimizersThatComeAndGoDoNotDisturbOneThatTrains) {
  auto quiet = make_jobs(1);
  auto disturbed = make_jobs(1);
  copy_values(quiet[0].model, disturbed[0].model);
  train(quiet[0]);
  std::atomic<bool> done{false};
  run_in_threads(3, [&](int i) {
    if (i == 0) {
      train(disturbed[0]);
      done = true;
      return;
    }
    while (!done) {
      torch::nn::Linear other(3, 2);
      AdaAct optimizer(*other);
      other->forward(torch::ones({2, 3})).sum().backward();
      optimizer.step();
    }
  });
  expect_bit_identical(snapshot(*disturbed[0].model), snapshot(*quiet[0].model));
}

TEST_F(Threads, OneModelRunBothWaysInSeveralThreadsGivesTheFactorsOfOneBatch) {
  torch::nn::Linear whole(6, 3);
  whole->to(torch::kFloat64);
  torch::nn::Linear parts(6, 3);
  parts->to(torch::kFloat64);
  copy_values(whole, parts);
  adaact::Kfac one(*whole);
  adaact::Kfac four(*parts);
  const auto x = torch::randn({40, 6}, torch::kFloat64);
  whole->forward(x).square().sum(1).mean().backward();
  one.step();
  run_in_threads(4, [&](int i) {
    (parts->forward(x.narrow(0, 10 * i, 10)).square().sum(1).mean() / 4).backward();
  });
  four.step();
  expect_close(snapshot(*parts), snapshot(*whole), 1e-12);
}

}  // namespace
