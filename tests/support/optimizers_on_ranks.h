#pragma once

// A rank's part in the training of a small net, step by step, by any optimizer.

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <adaact/adaact.h>
#include <adaact/ranks/gradient_exchange.h>
#include <nlohmann/json.hpp>

#include "support/small_models.h"

namespace adaact::testing::on_ranks_by_steps {

using nlohmann::json;
using OneRank = std::shared_ptr<Communicator>;

/// Convolutions, one of them in groups and without bias, and linear layers, one of which only the first image of a
/// batch passes through.
struct RanksNetImpl : torch::nn::Module {
  RanksNetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
    grouped = register_module(
        "grouped",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).groups(2).stride(2).bias(false)));
    hidden = register_module("hidden", torch::nn::Linear(6 * 2 * 2, 7));
    first_only = register_module("first_only", torch::nn::Linear(7, 7));
    fc = register_module("fc", torch::nn::Linear(7, 5));
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    for (auto& parameter : parameters()) parameter.uniform_(-0.3, 0.3, generator);
  }
  torch::Tensor forward(const torch::Tensor& x, bool has_first_image) {
    auto y = torch::tanh(grouped->forward(torch::tanh(conv->forward(x))));
    y = torch::tanh(hidden->forward(y.flatten(1)));
    if (has_first_image) {
      const auto others = y.narrow(0, 1, y.size(0) - 1);
      y = torch::cat({torch::tanh(first_only->forward(y.narrow(0, 0, 1))), others}, 0);
    }
    return fc->forward(y);
  }
  torch::nn::Conv2d conv{nullptr}, grouped{nullptr};
  torch::nn::Linear hidden{nullptr}, first_only{nullptr}, fc{nullptr};
};
TORCH_MODULE(RanksNet);

/// Batches of 10 images, and now and then one of 3: some of four ranks have none of those.
inline std::vector<Batch> batches_for(int steps, torch::Device device = torch::kCPU) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  std::vector<Batch> batches;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t size = step % 7 == 3 ? 3 : 10;
    batches.push_back({torch::randn({size, 2, 5, 5}, generator, torch::kFloat64).to(device),
                       torch::randint(0, 5, {size}, generator).to(device)});
  }
  return batches;
}

struct OptimizerCase {
  std::string name;
  std::string optimizer;
  json options;
  int steps = 50;  // of the longest test
};

inline void PrintTo(const OptimizerCase& each, std::ostream* out) { *out << each.name; }

/// All of the registry and the variants of those that observe. Where things do not happen in every step: often enough
/// to be seen. KFAC has more damping, because with that of its defaults a rounding error of a single process, too,
/// grows a hundredfold in ten steps.
inline std::vector<OptimizerCase> optimizer_cases() {
  const json factors{{"covariance_period", 2}, {"inverse_period", 3}};
  const auto with = [](json options, const json& more) {
    options.update(more);
    return options;
  };
  return {
      {"AdaAct", "adaact", json::object()},
      {"AdaActMomentum",
       "adaact",
       {{"unobserved_rule", "momentum"}, {"clip_range", {1e-3, 10.0}}},
       16},
      {"AdaActFull", "adaact", {{"covariance", "full"}, {"refresh_period", 3}}},
      {"Adam", "adam", {{"lr", 0.01}}},
      {"AdamW", "adamw", {{"lr", 0.01}}},
      {"Adan", "adan", {{"lr", 0.01}}},
      {"Foof", "foof", factors},
      {"FoofEigen", "foof", with(factors, {{"inverse", "eigen"}, {"kl_clip", 1e-3}}), 16},
      {"Kfac", "kfac", with(factors, {{"damping", 0.1}})},
      {"KfacCholesky", "kfac", with(factors, {{"inverse", "cholesky"}, {"damping", 0.1}}), 16},
      {"KfacAuthors", "kfac", with(factors, {{"scale", "authors"}, {"damping", 0.1}}), 16},
      {"Lamb", "lamb", {{"lr", 0.01}}},
      {"Sam", "sam", json::object()},
      {"SamAdaAct", "sam", {{"base", "adaact"}, {"adaptive", true}}, 16},
      {"SamKfac", "sam", with(factors, {{"base", "kfac"}, {"damping", 0.1}}), 16},
      {"Sgd", "sgd", {{"lr", 0.05}, {"momentum", 0.9}}},
  };
}

/// A rank's part in the training of the net: its model, optimizer and exchange.
class RankOfTraining {
 public:
  RankOfTraining(OneRank ranks, const OptimizerCase& which,
                 ShareFactors factors = ShareFactors::Yes, torch::Device device = torch::kCPU)
      : ranks_(std::move(ranks)) {
    model->to(device);
    optimizer_ = adaact::make_optimizer(which.optimizer, *model, which.options.dump());
    adaact::GradientExchangeOptions options;
    options.reduction = adaact::GradientExchangeOptions::Reduction::Sum;
    exchange.emplace(*model, ranks_, options);
    share_statistics(*optimizer_, ranks_, factors);
  }

  torch::optim::Optimizer& optimizer() { return *optimizer_; }

  /// A step with the batch in so many micro-batches, of each of which this rank takes its part.
  void step(const Batch& batch, std::int64_t micro_batches = 1, double clip_norm = 0.0) {
    optimizer_->step([&] {
      optimizer_->zero_grad();
      const auto samples = batch.x.size(0);
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        const auto begin = samples * i / micro_batches;
        const auto end = samples * (i + 1) / micro_batches;
        std::optional<GradientExchange::Hold> hold;
        if (i + 1 < micro_batches) hold.emplace(exchange->hold());
        pass(batch, begin, end);
      }
      exchange->finish();
      if (clip_norm > 0.0) torch::nn::utils::clip_grad_norm_(model->parameters(), clip_norm);
      return torch::zeros({});
    });
  }

  RanksNet model;
  std::optional<GradientExchange> exchange;
  bool uses_first_only = true;

 private:
  void pass(const Batch& batch, std::int64_t begin, std::int64_t end) {
    const auto own_begin = begin + (end - begin) * ranks_->rank() / ranks_->size();
    const auto own_end = begin + (end - begin) * (ranks_->rank() + 1) / ranks_->size();
    if (own_begin == own_end) return;
    const auto x = batch.x.slice(0, own_begin, own_end);
    const auto y = batch.y.slice(0, own_begin, own_end);
    const auto logits = model->forward(x, uses_first_only && own_begin == 0);
    const auto losses =
        torch::nll_loss(torch::log_softmax(logits, 1), y, /*weight=*/{}, torch::Reduction::Sum);
    (losses / static_cast<double>(batch.x.size(0))).backward();
  }

  OneRank ranks_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace adaact::testing::on_ranks_by_steps
