// Gradients that ranks exchange, against those of one process that makes all of their passes.

#include <adaact/ranks/gradient_exchange.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/thread_ranks.h"
#include "support/tolerance.h"

namespace {

using namespace adaact::testing;
using adaact::GradientExchange;
using adaact::GradientExchangeOptions;
using adaact::share_parameters;
using Reduction = GradientExchangeOptions::Reduction;
using Rank = std::shared_ptr<ThreadRank>;

constexpr double kSame = 1e-12;
constexpr std::int64_t kOneParameterEach = 1;
constexpr std::int64_t kEverything = std::int64_t{1} << 40;

/// Values that depend on the seed alone, on whatever thread a model is made.
void fill_parameters(torch::nn::Module& model, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& parameter : model.parameters()) parameter.normal_(0.0, 0.5, generator);
}

torch::Tensor random_rows(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn({rows, columns}, generator, torch::kFloat64);
}

/// Linear layers one after the other. Their names are those of the list: "0.weight".
torch::nn::Sequential make_layers(std::int64_t count = 3, std::int64_t width = 5) {
  torch::nn::Sequential layers;
  for (std::int64_t i = 0; i < count; ++i) {
    layers->push_back(torch::nn::Linear(width, width));
    layers->push_back(torch::nn::Tanh());
  }
  layers->to(torch::kFloat64);
  fill_parameters(*layers, 7);
  return layers;
}

torch::Tensor part_of(const torch::Tensor& batch, const adaact::Communicator& ranks) {
  return batch.slice(0, batch.size(0) * ranks.rank() / ranks.size(),
                     batch.size(0) * (ranks.rank() + 1) / ranks.size());
}

/// The mean over the rows, or of their share of so many rows.
torch::Tensor loss_of(const torch::Tensor& output, std::int64_t rows) {
  return output.pow(2).sum() / rows;
}

std::vector<torch::Tensor> gradients_of(const torch::nn::Module& model) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : model.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

/// Not there where the other is not, and close otherwise.
void expect_same_gradients(const torch::nn::Module& model, const torch::nn::Module& reference,
                           double tolerance = kSame) {
  const auto actual = gradients_of(model);
  const auto expected = gradients_of(reference);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].defined(), expected[i].defined()) << "parameter " << i;
    if (expected[i].defined()) {
      EXPECT_TRUE(all_close(actual[i], expected[i], tolerance)) << "parameter " << i;
    }
  }
}

GradientExchangeOptions sums(std::int64_t bucket_bytes = kOneParameterEach) {
  GradientExchangeOptions options;
  options.reduction = Reduction::Sum;
  options.bucket_bytes = bucket_bytes;
  return options;
}

GradientExchangeOptions means(std::int64_t bucket_bytes = kOneParameterEach) {
  auto options = sums(bucket_bytes);
  options.reduction = Reduction::Mean;
  return options;
}

TEST(GradientExchange, MeansOfEqualPartsAreTheWholeBatchs) {
  const auto batch = random_rows(12, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 12).backward();
  for (std::int64_t size = 1; size <= 4; ++size) {
    on_ranks(size, [&](const Rank& rank) {
      auto model = make_layers();
      GradientExchange exchange(*model, rank);
      loss_of(model->forward(part_of(batch, *rank)), 12 / size).backward();
      exchange.finish();
      expect_same_gradients(*model, *whole);
    });
  }
}

TEST(GradientExchange, SumsOfUnequalPartsAreTheWholeBatchs) {
  const auto batch = random_rows(10, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 10).backward();
  for (std::int64_t size = 1; size <= 4; ++size) {
    on_ranks(size, [&](const Rank& rank) {
      auto model = make_layers();
      GradientExchange exchange(*model, rank, sums());
      loss_of(model->forward(part_of(batch, *rank)), 10).backward();
      exchange.finish();
      expect_same_gradients(*model, *whole);
    });
  }
}

TEST(GradientExchange, TrainsAsOneProcessDoes) {
  for (const bool drop_gradients : {false, true}) {
    const auto train = [&](const std::shared_ptr<adaact::Communicator>& ranks) {
      auto model = make_layers();
      GradientExchange exchange(*model, ranks, sums(300));
      torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
      for (std::uint64_t step = 0; step < 20; ++step) {
        for (auto& parameter : model->parameters()) {
          auto& gradient = parameter.mutable_grad();
          if (drop_gradients) {
            gradient.reset();
          } else if (gradient.defined()) {
            gradient.zero_();
          }
        }
        const auto part = part_of(random_rows(10, 5, step), *ranks);
        loss_of(model->forward(part), 10).backward();
        exchange.finish();
        optimizer.step();
      }
      return snapshot(*model);
    };
    const auto alone = train(adaact::single_process());
    on_ranks(3, [&](const Rank& rank) { expect_close(train(rank), alone, kSame); });
  }
}

TEST(GradientExchange, BucketsHoldFromOneParameterToAll) {
  const auto batch = random_rows(10, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 10).backward();
  // A weight takes 200 bytes and a bias 40; each begins at a multiple of 64.
  const std::vector<std::pair<std::int64_t, std::int64_t>> messages_of_bytes{
      {kOneParameterEach, 6}, {256, 6}, {320, 3}, {640, 2}, {959, 2}, {960, 1}, {kEverything, 1}};
  for (const auto& [bytes, messages] : messages_of_bytes) {
    on_ranks(2, [&, bytes = bytes, messages = messages](const Rank& rank) {
      auto model = make_layers();
      GradientExchange exchange(*model, rank, sums(bytes));
      const auto begun_before = rank->sums();
      loss_of(model->forward(part_of(batch, *rank)), 10).backward();
      exchange.finish();
      expect_same_gradients(*model, *whole);
      EXPECT_EQ(exchange.last_cost().messages, messages) << bytes;
      EXPECT_EQ(rank->sums() - begun_before, messages) << bytes;
      EXPECT_EQ(exchange.last_cost().bytes, 3 * (256 + 64) + 6 * 8) << bytes;
    });
  }
}

TEST(GradientExchange, ModelsSmallerThanABucketAreSentInAboutEight) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers(/*count=*/20, /*width=*/64);
    GradientExchange exchange(*model, rank);
    exchange.finish();
    EXPECT_GE(exchange.last_cost().messages, 6);
    EXPECT_LE(exchange.last_cost().messages, 9);
    auto tiny = make_layers();
    GradientExchange exchange_of_tiny(*tiny, rank);
    exchange_of_tiny.finish();
    EXPECT_EQ(exchange_of_tiny.last_cost().messages, 1);
  });
}

TEST(GradientExchange, BeginsBeforeTheBackwardPassEnds) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers(/*count=*/3);
    GradientExchange exchange(*model, rank, sums());
    const auto begun_before = rank->sums();
    std::int64_t begun_at_first_layer = -1;
    const auto first = model[0]->as<torch::nn::Linear>()->forward(random_rows(4, 5, 1));
    first.register_hook([&](const torch::Tensor& gradient) {
      begun_at_first_layer = rank->sums() - begun_before;
      return gradient;
    });
    auto output = first;
    for (const auto i : {2, 4}) {
      output = model[static_cast<std::size_t>(i)]->as<torch::nn::Linear>()->forward(output.tanh());
    }
    loss_of(output, 4).backward();
    EXPECT_EQ(begun_at_first_layer, 4);
    EXPECT_EQ(rank->sums() - begun_before, 6);
    exchange.finish();
    EXPECT_EQ(rank->sums() - begun_before, 6);

    const auto cost = exchange.last_cost();
    EXPECT_GT(cost.seconds, 0.0);
    EXPECT_GT(cost.seconds_waited, 0.0);
    EXPECT_LT(cost.seconds_waited, cost.seconds);
    EXPECT_GT(cost.hidden(), 0.0);
    EXPECT_LT(cost.hidden(), 1.0);
  });
}

TEST(GradientExchange, HasHiddenNothingWhereAllIsSentByFinish) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums());
    exchange.finish();
    EXPECT_EQ(exchange.last_cost().hidden(), 0.0);
  });
}

TEST(GradientExchange, AnUnusedParameterStaysWithout) {
  on_ranks(3, [](const Rank& rank) {
    auto model = make_layers();
    const auto unused = model->register_parameter("unused", torch::ones({4}, torch::kFloat64));
    for (const auto bytes : {kOneParameterEach, kEverything}) {
      for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
      GradientExchange exchange(*model, rank, means(bytes));
      loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
      exchange.finish();
      EXPECT_FALSE(unused.grad().defined());
      auto alone = make_layers();
      loss_of(alone->forward(random_rows(4, 5, 1)), 4).backward();
      const auto of_first_layer = [](auto& network) {
        return network[0]->template as<torch::nn::Linear>()->weight.grad();
      };
      EXPECT_TRUE(all_close(of_first_layer(model), of_first_layer(alone), kSame));
    }
  });
}

TEST(GradientExchange, WhatOneRankUsesHasAGradientOnAll) {
  for (const auto& options : {sums(), sums(kEverything), means(), means(kEverything)}) {
    on_ranks(3, [&](const Rank& rank) {
      auto model = make_layers(1);
      const auto used_once =
          model->register_parameter("used_once", torch::ones({2}, torch::kFloat64));
      GradientExchange exchange(*model, rank, options);
      auto loss = loss_of(model->forward(random_rows(4, 5, 1)), 4);
      if (rank->rank() == 1) loss = loss + (used_once * torch::tensor({3.0, 6.0})).sum();
      loss.backward();
      exchange.finish();
      const auto divisor = options.reduction == Reduction::Mean ? 3.0 : 1.0;
      ASSERT_TRUE(used_once.grad().defined());
      EXPECT_TRUE(
          all_close(used_once.grad(), torch::tensor({3.0, 6.0}, torch::kFloat64) / divisor, kSame));
    });
  }
}

TEST(GradientExchange, ARankMayHaveNoPassAtAll) {
  const auto batch = random_rows(4, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 4).backward();
  on_ranks(3, [&](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums());
    if (rank->rank() == 2) loss_of(model->forward(batch), 4).backward();
    exchange.finish();
    expect_same_gradients(*model, *whole);
  });
}

TEST(GradientExchange, APassThatComesToAParameterWithNothingSendsZeros) {
  // A node that has no gradient to give hands an undefined one on.
  struct WithoutGradient : torch::autograd::Function<WithoutGradient> {
    static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                                 const torch::Tensor& input) {
      return input.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                   const torch::autograd::variable_list&) {
      return {torch::Tensor()};
    }
  };
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers(1);
    const auto parameter = model->register_parameter("empty", torch::ones({2}, torch::kFloat64));
    GradientExchange exchange(*model, rank, sums());
    const auto begun_before = rank->sums();
    (loss_of(model->forward(random_rows(4, 5, 1)), 4) + WithoutGradient::apply(parameter).sum())
        .backward();
    EXPECT_EQ(rank->sums() - begun_before, 3);
    exchange.finish();
    EXPECT_FALSE(parameter.grad().defined());
  });
}

TEST(GradientExchange, HeldPassesAddUpAndSendNothing) {
  const auto batch = random_rows(12, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 12).backward();
  on_ranks(2, [&](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums());
    for (int step = 0; step < 2; ++step) {
      for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
      const auto begun_before = rank->sums();
      const auto micro_batches = part_of(batch, *rank).chunk(3);
      for (std::size_t i = 0; i < 3; ++i) {
        std::optional<GradientExchange::Hold> until_last;
        if (i < 2) until_last.emplace(exchange.hold());
        loss_of(model->forward(micro_batches[i]), 12).backward();
        EXPECT_EQ(rank->sums() - begun_before, i < 2 ? 0 : 6);
      }
      exchange.finish();
      expect_same_gradients(*model, *whole);
    }
  });
}

TEST(GradientExchange, TheGradientOfAHeldPassIsSentWhereTheLastMakesNone) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers(1);
    const auto early = model->register_parameter("early", torch::ones({2}, torch::kFloat64));
    GradientExchange exchange(*model, rank, sums(kEverything));
    {
      const auto hold = exchange.hold();
      (early * 2.0).sum().backward();
    }
    loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
    exchange.finish();
    EXPECT_TRUE(all_close(early.grad(), torch::full({2}, 4.0, torch::kFloat64), kSame));
  });
}

TEST(GradientExchange, AllPassesMayBeHeld) {
  const auto batch = random_rows(4, 5, 1);
  auto whole = make_layers();
  loss_of(whole->forward(batch), 4).backward();
  on_ranks(2, [&](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums());
    const auto hold = exchange.hold();
    auto moved = exchange.hold();
    { const auto gone = std::move(moved); }
    loss_of(model->forward(part_of(batch, *rank)), 4).backward();
    exchange.finish();
    expect_same_gradients(*model, *whole);
  });
}

TEST(GradientExchange, ASecondPassIsAnErrorThatSaysWhatToDo) {
  const auto message_of =
      [](const std::function<void(GradientExchange&, torch::nn::Sequential&)>& passes) {
        return error_of([&] {
          on_ranks(2, [&](const Rank& rank) {
            auto model = make_layers();
            GradientExchange exchange(*model, rank);
            passes(exchange, model);
          });
        });
      };
  const auto whole_pass = [](torch::nn::Sequential& model) {
    loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
  };
  const auto pass_of_first_layer = [](torch::nn::Sequential& model) {
    loss_of(model[0]->as<torch::nn::Linear>()->forward(random_rows(4, 5, 1)), 4).backward();
  };
  const std::string expected = "a backward pass has added to the gradient of 0.";
  EXPECT_TRUE(contains(message_of([&](auto& /*exchange*/, auto& model) {
                         whole_pass(model);
                         pass_of_first_layer(model);
                       }),
                       expected));
  EXPECT_TRUE(contains(message_of([&](auto& exchange, auto& model) {
                         whole_pass(model);
                         const auto hold = exchange.hold();
                         pass_of_first_layer(model);
                       }),
                       expected));
  const auto message = message_of([&](auto& /*exchange*/, auto& model) {
    pass_of_first_layer(model);
    whole_pass(model);
  });
  EXPECT_TRUE(contains(message, expected));
  EXPECT_TRUE(contains(message, "keep what hold() returns during all but the last"));
}

TEST(GradientExchange, ModelsThatDifferAreNamedBeforeTheFirstStep) {
  const auto message_where_rank_1 = [](const std::function<void(torch::nn::Sequential&)>& change) {
    return error_of([&] {
      on_ranks(2, [&](const Rank& rank) {
        auto model = make_layers();
        if (rank->rank() == 1) change(model);
        GradientExchange exchange(*model, rank);
      });
    });
  };
  EXPECT_EQ(message_where_rank_1([](auto& model) {
              model[2]->template as<torch::nn::Linear>()->weight.set_data(
                  torch::zeros({5, 6}, torch::kFloat64));
            }),
            "rank 1 differs in the gradients to exchange: it has 2.weight, Double of shape [5, 6], "
            "expected 2.weight, Double of shape [5, 5], which rank 0 has");
  EXPECT_EQ(message_where_rank_1([](auto& model) { model->to(torch::kFloat32); }),
            "rank 1 differs in the gradients to exchange: it has 0.weight, Float of shape [5, 5], "
            "expected 0.weight, Double of shape [5, 5], which rank 0 has");
  EXPECT_TRUE(
      contains(message_where_rank_1([](auto& model) {
                 model[2]->template as<torch::nn::Linear>()->bias.requires_grad_(false);
               }),
               "it has 2.bias, Double of shape [5], frozen, expected 2.bias, Double of shape [5], "
               "which rank 0 has"));
  EXPECT_TRUE(
      contains(message_where_rank_1([](auto& model) { model->push_back(torch::nn::Linear(1, 2)); }),
               "it has 6.weight, Float of shape [2, 1], expected nothing"));
  EXPECT_TRUE(contains(message_where_rank_1([](auto& model) {
                         auto& weight = model[0]->template as<torch::nn::Linear>()->weight;
                         weight.set_data(weight.detach().t());
                       }),
                       "it has 0.weight, Double of shape [5, 5] with strides [1, 5], expected"));
}

TEST(GradientExchange, OptionsThatDifferAreNamed) {
  const auto message = error_of([] {
    on_ranks(2, [](const Rank& rank) {
      auto model = make_layers();
      GradientExchange exchange(*model, rank, rank->rank() == 0 ? sums(100) : means(100));
    });
  });
  EXPECT_TRUE(contains(message, "it has means in messages of at most 100 bytes, expected sums"));
}

struct TiedNet : torch::nn::Module {
  TiedNet() {
    encoder = register_module("encoder", torch::nn::Linear(5, 5));
    decoder = register_parameter("decoder", encoder->weight);
    to(torch::kFloat64);
    fill_parameters(*this, 3);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return encoder->forward(x).tanh().matmul(decoder);
  }
  torch::nn::Linear encoder{nullptr};
  torch::Tensor decoder;
};

TEST(GradientExchange, TiedWeightsAreSentOnce) {
  const auto batch = random_rows(6, 5, 1);
  TiedNet whole;
  loss_of(whole.forward(batch), 6).backward();
  on_ranks(3, [&](const Rank& rank) {
    TiedNet model;
    GradientExchange exchange(model, rank, sums());
    loss_of(model.forward(part_of(batch, *rank)), 6).backward();
    exchange.finish();
    expect_same_gradients(model, whole);
    EXPECT_EQ(exchange.last_cost().messages, 2);
  });
}

TEST(GradientExchange, FrozenParametersAreLeftAlone) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    auto& first = *model[0]->as<torch::nn::Linear>();
    first.weight.requires_grad_(false);
    GradientExchange exchange(*model, rank, sums());
    loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
    exchange.finish();
    EXPECT_FALSE(first.weight.grad().defined());
    EXPECT_TRUE(first.bias.grad().defined());
    EXPECT_EQ(exchange.last_cost().messages, 5);

    first.weight.requires_grad_(true);
    loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
    EXPECT_TRUE(contains(error_of([&] { exchange.finish(); }), "0.weight was frozen"));
  });
}

TEST(GradientExchange, ParametersMayBeFrozenAndThawedLater) {
  const auto batch = random_rows(4, 5, 1);
  on_ranks(2, [&](const Rank& rank) {
    auto alone = make_layers();
    auto model = make_layers();
    GradientExchange exchange(*model, rank, means());
    for (const bool trained : {true, false, true}) {
      for (auto* network : {&alone, &model}) {
        for (auto& parameter : (*network)->parameters()) parameter.mutable_grad().reset();
        (*network)[4]->as<torch::nn::Linear>()->weight.requires_grad_(trained);
      }
      const auto begun_before = rank->sums();
      loss_of(alone->forward(batch), 4).backward();
      loss_of(model->forward(batch), 4).backward();
      // Nobody waits for the gradient of a frozen one.
      EXPECT_EQ(rank->sums() - begun_before, 6);
      exchange.finish();
      expect_same_gradients(*model, *alone);
    }
  });
}

TEST(GradientExchange, EveryDtypeHasMessagesOfItsOwn) {
  const auto make_mixed = [] {
    torch::nn::Sequential model;
    for (const auto dtype :
         {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat64, torch::kFloat32}) {
      model->push_back(torch::nn::Linear(5, 5));
      model[model->size() - 1]->to(dtype);
    }
    fill_parameters(*model, 3);
    return model;
  };
  const auto output_of = [](torch::nn::Sequential& model, torch::Tensor x) {
    for (std::size_t i = 0; i < model->size(); ++i) {
      auto& layer = *model[i]->as<torch::nn::Linear>();
      x = layer.forward(x.to(layer.weight.scalar_type()));
    }
    return x.to(torch::kFloat64);
  };
  const auto batch = random_rows(6, 5, 1);
  auto alone = make_mixed();
  loss_of(output_of(alone, batch), 6).backward();
  on_ranks(2, [&](const Rank& rank) {
    auto model = make_mixed();
    GradientExchange exchange(*model, rank, means(kEverything));
    const auto begun_before = rank->sums();
    loss_of(output_of(model, batch), 6).backward();
    EXPECT_EQ(rank->sums() - begun_before, 3);
    exchange.finish();
    EXPECT_EQ(exchange.last_cost().messages, 3);
    // Twice the half of the same gradient, which is exact.
    expect_same_gradients(*model, *alone, 0.0);
    for (const auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter.grad().scalar_type(), parameter.scalar_type());
    }
  });
}

TEST(GradientExchange, GradientsKeepTheLayoutOfTheirParameters) {
  const auto make_convolution = [] {
    torch::nn::Conv2d model(torch::nn::Conv2dOptions(3, 4, {3, 1}));
    model->to(torch::kFloat64);
    fill_parameters(*model, 3);
    const torch::NoGradGuard no_grad;
    model->weight.set_data(model->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    return model;
  };
  const auto images = random_rows(4, 3 * 6 * 6, 1).view({4, 3, 6, 6});
  auto whole = make_convolution();
  loss_of(whole->forward(images), 4).backward();
  on_ranks(2, [&](const Rank& rank) {
    auto model = make_convolution();
    GradientExchange exchange(*model, rank, sums(kEverything));
    loss_of(model->forward(part_of(images, *rank)), 4).backward();
    if (rank->rank() == 1) {  // somebody's own gradient may lie otherwise
      model->weight.mutable_grad() = model->weight.grad().contiguous();
    }
    exchange.finish();
    expect_same_gradients(*model, *whole);
    EXPECT_EQ(model->weight.grad().strides(), model->weight.strides());
  });
}

TEST(GradientExchange, GradientsAreTensorsOfTheirOwn) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums(kEverything));
    loss_of(model->forward(random_rows(4, 5, 1)), 4)
        .backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    exchange.finish();
    const auto gradients = gradients_of(*model);
    const auto version = gradients[1]._version();
    const auto values = gradients[1].clone();
    gradients[0].zero_();
    EXPECT_EQ(gradients[1]._version(), version);
    EXPECT_TRUE(torch::equal(gradients[1], values));
    for (const auto& gradient : gradients) {
      EXPECT_FALSE(gradient.requires_grad());
      EXPECT_FALSE(gradient.is_view());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(gradient.data_ptr()) % 64, 0);
    }
  });
}

TEST(GradientExchange, GradientsThatAreZeroedInPlaceStayInTheirMessage) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    auto alone = make_layers();
    GradientExchange exchange(*model, rank, means(320));
    std::vector<void*> addresses;
    for (std::uint64_t step = 0; step < 4; ++step) {
      auto& bias = model[2]->as<torch::nn::Linear>()->bias;
      if (step == 3) bias.mutable_grad() = bias.grad().clone();
      for (auto* network : {&model, &alone}) {
        for (auto& parameter : (*network)->parameters()) {
          if (parameter.grad().defined()) parameter.mutable_grad().zero_();
        }
        loss_of((*network)->forward(random_rows(4, 5, step)), 4).backward();
      }
      exchange.finish();
      expect_same_gradients(*model, *alone);
      for (std::size_t i = 0; i < 6; ++i) {
        auto* const address = model->parameters()[i].grad().data_ptr();
        if (step == 0) addresses.push_back(address);
        // The last step has one gradient elsewhere, so that its message is made anew.
        const bool is_made_anew = step == 3 && (i == 2 || i == 3);
        EXPECT_EQ(address == addresses[i], !is_made_anew) << "parameter " << i << ", step " << step;
      }
    }
  });
}

TEST(GradientExchange, SparseGradientsAreAnErrorThatNamesTheParameter) {
  const auto message = error_of([] {
    on_ranks(2, [](const Rank& rank) {
      torch::nn::Embedding model(torch::nn::EmbeddingOptions(10, 3).sparse(true));
      GradientExchange exchange(*model, rank);
      model->forward(torch::tensor({1, 2})).sum().backward();
    });
  });
  EXPECT_TRUE(contains(message, "the gradient of weight is sparse"));
}

TEST(GradientExchange, AModelThatWasConvertedNeedsANewOne) {
  const auto message = error_of([] {
    on_ranks(2, [](const Rank& rank) {
      auto model = make_layers();
      GradientExchange exchange(*model, rank);
      model->to(torch::kFloat32);
      loss_of(model->forward(random_rows(4, 5, 1).to(torch::kFloat32)), 4).backward();
      exchange.finish();
    });
  });
  EXPECT_TRUE(contains(message, "4.bias is Float of shape [5], expected Double of shape [5]"));
}

TEST(GradientExchange, OneRankSendsNothingAndMayPassAsItLikes) {
  on_ranks(1, [](const Rank& rank) {
    auto model = make_layers();
    auto alone = make_layers();
    GradientExchange exchange(*model, rank);
    for (auto* network : {&alone, &model}) {
      for (int i = 0; i < 2; ++i) {
        loss_of((*network)->forward(random_rows(4, 5, 1)), 4).backward();
      }
    }
    const auto hold = exchange.hold();
    exchange.finish();
    expect_same_gradients(*model, *alone, 0.0);
    share_parameters(*model, *rank);
    EXPECT_EQ(rank->sums(), 0);
    EXPECT_EQ(exchange.last_cost().messages, 0);
    EXPECT_EQ(exchange.last_cost().hidden(), 0.0);
  });
}

TEST(GradientExchange, GradientsLiveOnWithoutIt) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    auto alone = make_layers();
    const auto batch = random_rows(4, 5, 1);
    {
      GradientExchange exchange(*model, rank, means());
      loss_of(model->forward(batch), 4).backward();
      exchange.finish();
    }
    const auto begun = rank->sums();
    loss_of(model->forward(batch), 4).backward();
    EXPECT_EQ(rank->sums(), begun);
    for (int i = 0; i < 2; ++i) loss_of(alone->forward(batch), 4).backward();
    expect_same_gradients(*model, *alone);
  });
}

TEST(GradientExchange, MayOutliveTheModel) {
  on_ranks(2, [](const Rank& rank) {
    std::optional<GradientExchange> exchange;
    {
      auto model = make_layers();
      exchange.emplace(*model, rank);
      loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
    }
    exchange->finish();
    EXPECT_EQ(exchange->last_cost().messages, 1);
  });
}

TEST(GradientExchange, TakesNamedTensors) {
  on_ranks(2, [](const Rank& rank) {
    const auto weight = torch::ones({3}, torch::kFloat64).requires_grad_();
    GradientExchange exchange({{"weight", weight}, {"none", torch::Tensor()}, {"again", weight}},
                              rank, sums());
    (weight * static_cast<double>(rank->rank() + 1)).sum().backward();
    exchange.finish();
    EXPECT_TRUE(torch::equal(weight.grad(), torch::full({3}, 3.0, torch::kFloat64)));
    EXPECT_EQ(exchange.last_cost().messages, 1);

    const std::vector<std::pair<std::string, torch::Tensor>> computed{{"twice", weight * 2}};
    EXPECT_TRUE(contains(error_of([&] { GradientExchange(computed, rank); }),
                         "the gradient of twice cannot be exchanged"));
  });
}

TEST(GradientExchange, OptionsThatMakeNoSenseAreNamed) {
  auto model = make_layers();
  EXPECT_TRUE(
      contains(error_of([&] { GradientExchange(*model, adaact::single_process(), sums(0)); }),
               "bucket_bytes is 0, expected more than 0"));
  EXPECT_TRUE(
      contains(error_of([&] { GradientExchange(*model, nullptr); }), "there is no communicator"));
}

/// A rank whose sums cannot be begun after a number of them.
class FailingRank : public ThreadRank {
 public:
  FailingRank(std::shared_ptr<MeetingPlace> place, std::int64_t rank, std::int64_t size)
      : ThreadRank(std::move(place), rank, size) {}
  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override {
    if (fails) throw adaact::RankError("rank 1 does not answer");
    return ThreadRank::begin_sum(std::move(tensors));
  }
  bool fails = false;
};

TEST(GradientExchange, AFailureOfTheRanksComesOutOfTheBackwardPassAsItIs) {
  const auto place = std::make_shared<MeetingPlace>(2);
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto ranks = std::make_shared<FailingRank>(place, rank, 2);
      auto model = make_layers();
      GradientExchange exchange(*model, ranks);
      ranks->fails = true;
      const auto loss = loss_of(model->forward(random_rows(4, 5, 1)), 4);
      EXPECT_THROW(loss.backward(), adaact::RankError);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(GradientExchange, AMessageTakesThePlaceOfThePassesOwnGradients) {
  on_ranks(2, [](const Rank& rank) {
    auto model = make_layers();
    GradientExchange exchange(*model, rank, sums(320));
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> own;
    for (auto& parameter : model->parameters()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
      own.emplace_back(parameter.grad().getIntrusivePtr());
    }
    loss_of(model->forward(random_rows(4, 5, 1)), 4).backward();
    EXPECT_TRUE(std::all_of(own.begin(), own.end(), [](auto& ptr) { return ptr.expired(); }));
    exchange.finish();
    const auto gradients = gradients_of(*model);
    for (std::size_t i = 0; i < gradients.size(); i += 2) {
      EXPECT_TRUE(gradients[i].is_alias_of(gradients[i + 1])) << i;
      if (i > 0) {
        EXPECT_FALSE(gradients[i].is_alias_of(gradients[i - 1])) << i;
      }
    }
  });
}

/// Layers of which every pass uses some, tied and frozen ones among them.
struct RandomNet : torch::nn::Module {
  explicit RandomNet(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto chance = [&](double p) { return std::bernoulli_distribution(p)(random); };
    width = std::uniform_int_distribution<std::int64_t>(1, 12)(random);
    const auto count = std::uniform_int_distribution<std::size_t>(1, 7)(random);
    for (std::size_t i = 0; i < count; ++i) {
      const auto name = "layer" + std::to_string(i);
      torch::nn::Linear layer(torch::nn::LinearOptions(width, width).bias(chance(0.7)));
      if (chance(0.1)) layer->weight.requires_grad_(false);
      if (i > 0 && chance(0.2)) layer = layers[i / 2];
      layers.push_back(register_module(name, layer));
      if (chance(0.3)) scales.push_back(register_parameter(name + "_scale", torch::ones({})));
    }
    first_is_trained = layers[0]->weight.requires_grad();
    to(torch::kFloat64);
    fill_parameters(*this, seed);
  }
  /// What is used depends on `choice`.
  torch::Tensor forward(torch::Tensor x, std::uint64_t choice) {
    std::mt19937_64 random(choice);
    for (auto& layer : layers) {
      if (std::bernoulli_distribution(0.7)(random)) x = layer->forward(x).tanh();
    }
    for (auto& scale : scales) {
      if (std::bernoulli_distribution(0.5)(random)) x = x * scale;
    }
    return x;
  }
  std::int64_t width = 0;
  bool first_is_trained = false;
  std::vector<torch::nn::Linear> layers;
  std::vector<torch::Tensor> scales;
};

/// Steps of a number of passes on each of several ranks. Ranks and passes have inputs of their own and use layers of
/// their own.
struct RandomTask {
  explicit RandomTask(std::uint64_t its_seed) : seed(its_seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::int64_t from, std::int64_t to) {
      return std::uniform_int_distribution<std::int64_t>(from, to)(random);
    };
    size = draw(2, 4);
    passes = draw(1, 3);
    drops_gradients = draw(0, 1) == 1;
    const std::vector<std::int64_t> limits{kOneParameterEach, 100, 700, 3000, kEverything};
    const auto limit = limits[static_cast<std::size_t>(draw(0, 4))];
    options = draw(0, 1) == 1 ? sums(limit) : means(limit);
  }

  void start_step(RandomNet& model, std::int64_t step) const {
    for (auto& parameter : model.parameters()) {
      auto& gradient = parameter.mutable_grad();
      if (drops_gradients) {
        gradient.reset();
      } else if (gradient.defined()) {
        gradient.zero_();
      }
    }
    if (model.first_is_trained) model.layers[0]->weight.requires_grad_(step != 1);
  }
  void make_pass(RandomNet& model, std::int64_t rank, std::int64_t step, std::int64_t pass,
                 double scale) const {
    const auto choice = seed * 1000 + static_cast<std::uint64_t>((step * 5 + pass) * 5 + rank);
    const auto loss =
        scale * model.forward(random_rows(1 + rank, model.width, choice), choice).pow(2).sum();
    if (loss.requires_grad()) loss.backward();
  }

  std::uint64_t seed;
  std::int64_t size = 0;
  std::int64_t passes = 0;
  bool drops_gradients = false;
  GradientExchangeOptions options;
};

TEST(GradientExchange, RandomModelsEqualOneProcessThatMakesAllPasses) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomTask task(seed);
    on_ranks(task.size, [&](const Rank& rank) {
      RandomNet model(seed);
      RandomNet alone(seed);
      GradientExchange exchange(model, rank, task.options);
      for (std::int64_t step = 0; step < 3; ++step) {
        task.start_step(model, step);
        task.start_step(alone, step);
        const auto scale = task.options.reduction == Reduction::Mean ? 1.0 / task.size : 1.0;
        for (std::int64_t pass = 0; pass < task.passes; ++pass) {
          std::optional<GradientExchange::Hold> until_last;
          if (pass + 1 < task.passes) until_last.emplace(exchange.hold());
          task.make_pass(model, rank->rank(), step, pass, 1.0);
          for (std::int64_t r = 0; r < task.size; ++r) {
            task.make_pass(alone, r, step, pass, scale);
          }
        }
        exchange.finish();
        expect_same_gradients(model, alone);
      }
    });
  }
}

struct NormalizedNet : torch::nn::Module {
  explicit NormalizedNet(std::int64_t rank, std::int64_t channels = 4) {
    conv = register_module("conv", torch::nn::Conv2d(3, channels, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(channels));
    register_buffer("step", torch::full({}, rank, torch::kInt64));
    fill_parameters(*this, static_cast<std::uint64_t>(rank));
    norm->running_mean.fill_(static_cast<double>(rank));
    const torch::NoGradGuard no_grad;
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};

TEST(ShareParameters, GivesAllRanksThoseOfTheFirst) {
  on_ranks(3, [](const Rank& rank) {
    NormalizedNet model(rank->rank());
    const NormalizedNet first(0);
    share_parameters(model, *rank);
    expect_bit_identical(snapshot(model), snapshot(first));
    expect_bit_identical(model.buffers(), first.buffers());
    EXPECT_TRUE(model.conv->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
    for (const auto& parameter : model.parameters()) EXPECT_TRUE(parameter.requires_grad());
  });
}

TEST(ShareParameters, NamesWhatDiffers) {
  const auto message = error_of([] {
    on_ranks(2, [](const Rank& rank) {
      NormalizedNet model(0, /*channels=*/4 + rank->rank());
      share_parameters(model, *rank);
    });
  });
  EXPECT_EQ(message,
            "rank 1 differs in the parameters to share: it has conv.weight, Float of shape "
            "[5, 3, 3, 3], expected conv.weight, Float of shape [4, 3, 3, 3], which rank 0 has");
}

}  // namespace
