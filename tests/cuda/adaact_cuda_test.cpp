// The optimizer on a GPU against the same on the CPU. Skips, visibly, where there is none.

#include <adaact/adaact.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/layer_cases.h"
#include "support/libtorch.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::AdaAct;
using adaact::AdaActOptions;
using adaact::Geometry;

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

/// to(kCUDA) would make a slice dense. An expanded batch cannot be written to and becomes dense.
torch::Tensor on_gpu_with_same_strides(const torch::Tensor& x) {
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    if (x.size(dim) > 1 && x.stride(dim) == 0) return x.to(torch::kCUDA);
  }
  return torch::empty_strided(x.sizes(), x.strides(), x.options().device(torch::kCUDA)).copy_(x);
}

TEST_F(Cuda, SecondMomentAgreesWithTheCpu) {
  torch::manual_seed(61);
  const auto check = [](const torch::Tensor& x, const Geometry& geometry) {
    const auto cpu = adaact::second_moment(x, geometry);
    const auto cuda = adaact::second_moment(x.to(torch::kCUDA), geometry);
    EXPECT_EQ(cuda.count, cpu.count);
    EXPECT_TRUE(cuda.sum.is_cuda());
    EXPECT_TRUE(all_close(cuda.sum.cpu(), cpu.sum, 1e-5));
  };
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kHalf, torch::kFloat64}) {
    check(torch::randn({64, 100}).to(dtype), Geometry::linear());
    const auto image = torch::randn({8, 6, 15, 13}).to(dtype);
    const auto geometry = Geometry::convolution({3, 2}, {2, 1}, {1, 0}, {1, 2}, 3);
    check(image, geometry);
    check(image.contiguous(torch::MemoryFormat::ChannelsLast), geometry);
  }
}

TEST_F(Cuda, MemoryOfAnInputMayBeUsedAgainBeforeTheStep) {
  const auto train = [](bool reuse) {
    torch::manual_seed(62);
    torch::nn::Sequential model(torch::nn::Linear(7, 6), torch::nn::ReLU(),
                                torch::nn::Linear(6, 2));
    model->to(torch::kCUDA);
    AdaAct optimizer(*model);
    const auto buffer = torch::empty({5, 7}, torch::kCUDA);
    for (int batch = 0; batch < 3; ++batch) {
      const auto x = torch::randn({5, 7}).to(torch::kCUDA);
      if (reuse) buffer.copy_(x);
      model->forward(reuse ? buffer : x).square().sum().backward();
    }
    buffer.zero_();
    optimizer.step();
    return optimizer.second_moment(model->parameters()[0]).cpu();
  };
  EXPECT_TRUE(torch::equal(train(/*reuse=*/true), train(/*reuse=*/false)));
}

TEST_F(Cuda, AnInputThatIsChangedInPlaceIsNotMistakenForTheOneThatWasRead) {
  torch::nn::Linear first(7, 6);
  torch::nn::Linear second(6, 2);
  torch::nn::Sequential model(first, second);
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  const auto hidden = first->forward(torch::randn({5, 7}, torch::kCUDA));
  second->forward(hidden).sum().backward();
  hidden.detach().zero_();
  optimizer.discard_observations();  // the changed input is dropped before anything measures it
  second->forward(first->forward(torch::randn({5, 7}, torch::kCUDA))).sum().backward();
  optimizer.step();
  const auto changed = first->forward(torch::randn({5, 7}, torch::kCUDA));
  second->forward(changed).sum().backward();
  changed.detach().zero_();
  EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }),
                       "of the layer with weight '1.weight' was changed in place"));
}

TEST_F(Cuda, AStepThatCannotMeasureLeavesNothingToTheNextOne) {
  torch::nn::Linear first(7, 6);
  torch::nn::Linear second(6, 2);
  torch::nn::Sequential model(first, second);
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  const auto changed = first->forward(torch::randn({5, 7}, torch::kCUDA));
  second->forward(changed).sum().backward();
  changed.detach().zero_();
  error_of([&] { optimizer.step(); });
  const auto x = torch::randn({5, 7}, torch::kCUDA);
  second->forward(first->forward(x)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(
      all_close(optimizer.second_moment(first->weight)[0].cpu(), x.square().mean(0).cpu(), 1e-5));
}

TEST_F(Cuda, SecondMomentOfManyShapesAgreesWithThePatchMatrixAndRepeatsItself) {
  CaseGenerator generator(20240815);
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kHalf, torch::kFloat64}) {
    for (int i = 0; i < 200; ++i) {
      const auto c = generator.draw(dtype);
      SCOPED_TRACE(c);
      const auto reference = adaact::second_moment_reference(c.input, c.geometry);
      const auto x = on_gpu_with_same_strides(c.input);
      const auto moment = adaact::second_moment(x, c.geometry);
      EXPECT_EQ(moment.count, reference.count);
      EXPECT_TRUE(all_close(moment.sum.cpu(), reference.sum, tolerance(dtype)));
      EXPECT_TRUE(bit_identical(adaact::second_moment(x, c.geometry).sum, moment.sum));
      if (HasFailure()) return;
    }
  }
}

TEST_F(Cuda, TrainingAgreesWithTheCpuInFloat64) {
  for (const auto covariance : {adaact::Covariance::Diagonal, adaact::Covariance::Full}) {
    torch::manual_seed(62);
    SmallNet cpu;
    SmallNet cuda;
    cpu->to(torch::kFloat64);
    cuda->to(torch::kFloat64);
    copy_values(cpu, cuda);
    const auto options = AdaActOptions(0.05).covariance(covariance);
    AdaAct cpu_optimizer(*cpu, options);
    AdaAct cuda_optimizer(*cuda, options);
    cuda->to(torch::kCUDA);  // after construction
    for (int t = 0; t < 10; ++t) {
      const auto batch = image_batch(16);
      train_step(cpu, cpu_optimizer, batch);
      train_step(cuda, cuda_optimizer, {batch.x.to(torch::kCUDA), batch.y.to(torch::kCUDA)});
    }
    cuda->to(torch::kCPU);
    expect_close(snapshot(*cuda), snapshot(*cpu), 1e-8);
  }
}

TEST_F(Cuda, ModelMovedBetweenStepsTakesItsStateAlong) {
  auto model = make_mlp();
  auto reference = make_mlp();
  copy_values(model, reference);
  AdaAct optimizer(*model);
  AdaAct reference_optimizer(*reference);
  for (int t = 0; t < 6; ++t) {
    const auto batch = row_batch(8);
    const auto device = t % 2 == 0 ? torch::kCPU : torch::kCUDA;
    model->to(device);
    for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::Tensor();
    train_step(model, optimizer, {batch.x.to(device), batch.y.to(device)});
    train_step(reference, reference_optimizer, batch);
  }
  model->to(torch::kCPU);
  expect_close(snapshot(*model), snapshot(*reference), 1e-9);
}

TEST_F(Cuda, StateSavedOnTheGpuLoadsOnTheCpu) {
  auto model = make_mlp();
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  const auto batch = row_batch(8);
  train_step(model, optimizer, {batch.x.to(torch::kCUDA), batch.y.to(torch::kCUDA)});
  std::stringstream stream;
  optimizer.named_state().save(stream);
  auto other = make_mlp();
  AdaAct other_optimizer(*other);
  other_optimizer.named_state().load(stream);
  train_step(other, other_optimizer, batch);
}

TEST_F(Cuda, NonFiniteGradientIsFound) {
  auto model = make_mlp(torch::kFloat32);
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  cross_entropy(model->forward(torch::randn({4, 6}, torch::kCUDA)),
                torch::zeros({4}, torch::dtype(torch::kLong).device(torch::kCUDA)))
      .backward();
  model->parameters()[0].mutable_grad()[0][0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(optimizer.step(), adaact::NonFiniteError);
}

TEST_F(Cuda, AStepOutOfAllProportionIsWarnedOfWithTheNextOne) {
  torch::nn::Linear model(4, 3);
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  auto x = torch::randn({8, 4}, torch::kCUDA);
  x.select(1, 1).zero_();  // an input that is always 0
  WarningCapture warnings;
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    (model->forward(x).square().mean() + model->weight.square().sum()).backward();
    optimizer.step();
    EXPECT_EQ(warnings.messages.size(), i == 0 ? 0U : 1U);
  }
  ASSERT_EQ(warnings.messages.size(), 1U);
  EXPECT_TRUE(contains(warnings.messages[0], "has changed an element of 'weight'"));
}

TEST_F(Cuda, CudnnRecurrentLayerIsNoLayer) {
  torch::nn::LSTM model(4, 3);
  model->to(torch::kCUDA);
  AdaAct optimizer(*model);
  std::get<0>(model->forward(torch::randn({5, 2, 4}, torch::kCUDA))).sum().backward();
  optimizer.step();
  for (const auto& parameter : optimizer.coverage()) EXPECT_FALSE(parameter.observed);
}

}  // namespace
