#include "train/bench/measured_exchange.h"

#include <algorithm>
#include <numeric>

#include <adaact/optim/observing_optimizer.h>
#include <adaact/ranks/mpi.h>
#include <torch/torch.h>

#include "train/bench/timed_work.h"
#include "train/step/rank_totals.h"

namespace adaact {
namespace {

// Sums from a size that takes its latency alone to one that no cache of a processor holds.
constexpr std::int64_t kSummedBytes[] = {8, 64 << 10, 1 << 20, 16 << 20};
constexpr int kSumsOfASize = 15;

/// The numbers of rank 0, then those of rank 1, …; each rank has as many.
std::vector<double> of_every_rank(const std::vector<double>& own, Communicator& ranks) {
  const auto count = static_cast<std::int64_t>(own.size());
  const auto all = torch::zeros({ranks.size(), count}, torch::kFloat64);
  auto* first = all.data_ptr<double>();
  std::copy(own.begin(), own.end(), first + ranks.rank() * count);
  ranks.sum({all});
  return {first, first + all.numel()};
}

double mean_of_ranks(double own, Communicator& ranks) {
  const auto all = of_every_rank({own}, ranks);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

}  // namespace

MeasuredExchange::MeasuredExchange(Model& model, torch::optim::Optimizer& optimizer,
                                   const std::shared_ptr<Communicator>& ranks)
    : ranks_(ranks),
      for_gradients_(std::make_shared<MeteredRanks>(ranks)),
      for_statistics_(std::make_shared<MeteredRanks>(ranks)),
      exchange_(model, for_gradients_, shares_of_mean()) {
  share_parameters(model, *ranks_);
  share_statistics(optimizer, for_statistics_);
}

void MeasuredExchange::finish() {
  exchange_.finish();
  const auto cost = exchange_.last_cost();
  hidden_.push_back(cost.hidden());
  seconds_waited_ += cost.seconds_waited;
}

void MeasuredExchange::forget_first_steps() {
  for_gradients_->restart();
  for_statistics_->restart();
  hidden_.clear();
  seconds_waited_ = 0.0;
}

void MeasuredExchange::begin_round() {
  ranks_->barrier();
  under_way_before_round_ = mpi_traffic().seconds_busy;
}

void MeasuredExchange::end_round(std::int64_t steps) {
  steps_ += steps;
  seconds_under_way_ += mpi_traffic().seconds_busy - under_way_before_round_;
}

ExchangeCost MeasuredExchange::cost() const {
  const auto a_step = [this](auto all) { return all / static_cast<decltype(all)>(steps_); };
  const auto milliseconds = [&](double seconds) {
    return mean_of_ranks(1e3 * a_step(seconds), *ranks_);
  };
  const auto& gradients = for_gradients_->reading();
  const auto& statistics = for_statistics_->reading();
  ExchangeCost cost;
  cost.is_seen_by_host = !ranks_->can_be_captured();
  cost.messages = a_step(gradients.messages);
  cost.largest_message_bytes = gradients.largest_message;
  cost.gradient_bytes = a_step(gradients.bytes);
  cost.statistics_bytes = a_step(statistics.bytes);
  cost.waited_for_gradients_ms = milliseconds(seconds_waited_);
  cost.waited_for_statistics_ms = milliseconds(statistics.seconds_waited);
  cost.under_way_ms = milliseconds(seconds_under_way_);
  cost.hidden = median(of_every_rank(hidden_, *ranks_));
  return cost;
}

std::int64_t images_of_rank(std::int64_t batch_size, std::int64_t rank, std::int64_t ranks) {
  return batch_size * (rank + 1) / ranks - batch_size * rank / ranks;
}

std::vector<SumCost> measure_sums(Communicator& ranks, torch::Device device) {
  std::vector<SumCost> costs;
  for (const auto bytes : kSummedBytes) {
    const auto numbers = torch::zeros({bytes / static_cast<std::int64_t>(sizeof(float))}, device);
    ranks.sum({numbers});
    std::vector<double> taken;
    taken.reserve(kSumsOfASize);
    for (int i = 0; i < kSumsOfASize; ++i) {
      taken.push_back(milliseconds_of(device, [&] { ranks.sum({numbers}); }));
    }
    costs.push_back({bytes, median(taken)});
  }
  return costs;
}

}  // namespace adaact
