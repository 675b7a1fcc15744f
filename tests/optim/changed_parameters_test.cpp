// Parameters that become something else under their optimizer: every optimizer follows, or throws before it has
// changed anything. Under AddressSanitizer none writes beyond a buffer.

#include <sstream>

#include <adaact/adaact.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/small_models.h"
#include "support/tolerance.h"

namespace {

using adaact::testing::Batch;
using adaact::testing::contains;
using adaact::testing::cross_entropy;
using adaact::testing::error_of;
using adaact::testing::expect_bit_identical;
using adaact::testing::row_batch;
using adaact::testing::snapshot;

struct HeadNetImpl : torch::nn::Module {
  HeadNetImpl() {
    body = register_module("body", torch::nn::Linear(6, 8));
    head = register_module("head", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head->forward(torch::tanh(body->forward(x)));
  }
  void resize_head(std::int64_t classes) {
    head->weight.set_data(torch::randn({classes, 8}, head->weight.options()));
    head->bias.set_data(torch::randn({classes}, head->bias.options()));
    head->weight.mutable_grad() = torch::Tensor();
    head->bias.mutable_grad() = torch::Tensor();
  }
  torch::nn::Linear body{nullptr}, head{nullptr};
};
TORCH_MODULE(HeadNet);

class ChangedParameters : public ::testing::TestWithParam<std::string> {
 protected:
  ChangedParameters() {
    torch::manual_seed(1);
    optimizer_ = adaact::make_optimizer(GetParam(), *model_);
  }

  /// A step whose gradients may be changed before it is taken.
  void step(
      const Batch& batch, const std::function<void()>& before = [] {}) {
    optimizer_->step([&] {
      optimizer_->zero_grad();
      auto loss = cross_entropy(model_->forward(batch.x), batch.y);
      loss.backward();
      before();
      return loss;
    });
  }

  /// Everything that a step may change.
  std::string state() {
    std::ostringstream out;
    adaact::named_state(*optimizer_).save(out);
    return out.str();
  }

  /// A step that must fail and change nothing; what it says.
  std::string error_of_step(
      const Batch& batch, const std::function<void()>& before = [] {}) {
    const auto parameters = snapshot(*model_);
    auto error = error_of([&] { step(batch, before); });
    expect_bit_identical(snapshot(*model_), parameters);
    return error;
  }

  HeadNet model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

TEST_P(ChangedParameters, AHeadThatGrewIsNamedWithBothShapes) {
  for (int i = 0; i < 2; ++i) step(row_batch(4, torch::kFloat32));
  model_->resize_head(1000);
  for (int i = 0; i < 2; ++i) {
    const auto error = error_of_step(row_batch(4, torch::kFloat32));
    EXPECT_TRUE(contains(error, "'head.weight' has shape [1000, 8], expected [3, 8]"));
  }
}

TEST_P(ChangedParameters, AHeadThatShrankIsNamedWithBothShapes) {
  for (int i = 0; i < 2; ++i) step(row_batch(4, torch::kFloat32));
  model_->resize_head(2);
  auto batch = row_batch(4, torch::kFloat32);
  batch.y.fill_(1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(contains(error_of_step(batch), "'head.weight' has shape [2, 8], expected [3, 8]"));
  }
}

TEST_P(ChangedParameters, AHeadThatIsAsItWasAgainTrainsOn) {
  step(row_batch(4, torch::kFloat32));
  const auto before = state();
  model_->resize_head(1000);
  error_of_step(row_batch(4, torch::kFloat32));
  model_->resize_head(3);
  EXPECT_EQ(state(), before);
  const auto parameters = snapshot(*model_);
  step(row_batch(4, torch::kFloat32));
  EXPECT_FALSE(torch::equal(snapshot(*model_).front(), parameters.front()));
}

TEST_P(ChangedParameters, AHeadReplacedBeforeTheFirstStepIsTrained) {
  model_->resize_head(7);
  const auto parameters = snapshot(*model_);
  for (int i = 0; i < 2; ++i) step(row_batch(4, torch::kFloat32));
  EXPECT_FALSE(torch::equal(snapshot(*model_).back(), parameters.back()));
}

TEST_P(ChangedParameters, AGradientOfAnotherShapeIsNamedWithBothShapes) {
  const auto batch = row_batch(4, torch::kFloat32);
  for (int i = 0; i < 2; ++i) {
    // LibTorch lets a gradient be set that would broadcast.
    const auto error = error_of_step(batch, [&] {
      model_->body->weight.unsafeGetTensorImpl()->set_requires_grad(false);
      model_->body->weight.mutable_grad() = torch::ones({1, 6});
      model_->body->weight.unsafeGetTensorImpl()->set_requires_grad(true);
    });
    EXPECT_TRUE(contains(error, "gradient of 'body.weight' has shape [1, 6], expected [8, 6]"));
    model_->body->weight.mutable_grad() = torch::Tensor();
  }
  step(batch);
}

TEST_P(ChangedParameters, AnotherDtypeIsFollowed) {
  step(row_batch(4, torch::kFloat32));
  model_->to(torch::kFloat64);
  step(row_batch(4, torch::kFloat64));
  model_->to(torch::kFloat32);
  step(row_batch(4, torch::kFloat32));
  for (const auto& value : snapshot(*model_))
    EXPECT_TRUE(torch::isfinite(value).all().item<bool>());
}

TEST(ChangedParameter, OneWithOtherColumnsThanWereObservedIsNamed) {
  for (const auto* optimizer_name : {"foof", "kfac"}) {
    torch::nn::Linear model(6, 3);
    const auto optimizer = adaact::make_optimizer(optimizer_name, *model);
    model->forward(torch::randn({4, 6})).sum().backward();
    model->weight.set_data(torch::randn({3, 2}));
    model->weight.mutable_grad() = torch::ones({3, 2});
    const auto error = error_of([&] { optimizer->step(); });
    EXPECT_TRUE(contains(error, "'weight' was observed with 3 rows and 7 features"));
  }
}

TEST(ChangedParameter, OneWithoutMemoryIsNamed) {
  const auto meta = torch::TensorOptions().device(torch::kMeta);
  const auto weight = torch::empty({3, 4}, meta).requires_grad_();
  const adaact::LayerMap model(adaact::NamedTensors{{"weight", weight}});
  adaact::AdaAct adaact(model);
  adaact::Adan adan(model);
  adaact::Lamb lamb(model);
  weight.mutable_grad() = torch::empty({3, 4}, meta);
  for (torch::optim::Optimizer* optimizer :
       std::vector<torch::optim::Optimizer*>{&adaact, &adan, &lamb}) {
    EXPECT_TRUE(contains(error_of([&] { optimizer->step(); }),
                         "'weight' is on meta, expected a device with memory"));
  }
}

TEST(ChangedParameter, OneReplacedAfterItWasObservedIsNamed) {
  for (const auto* optimizer_name : {"adaact", "foof"}) {
    HeadNet model;
    const auto optimizer = adaact::make_optimizer(optimizer_name, *model);
    const auto batch = row_batch(4, torch::kFloat32);
    cross_entropy(model->forward(batch.x), batch.y).backward();
    model->resize_head(2);
    EXPECT_TRUE(contains(error_of([&] { optimizer->step(); }),
                         "the layer with weight 'head.weight' was observed with 3 rows"));
    optimizer->step();
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ChangedParameters,
                         ::testing::ValuesIn(adaact::optimizer_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
