#include "train/probes/activation_variances.h"

#include <cstdint>
#include <limits>
#include <map>

#include <torch/torch.h>

namespace adaact {
namespace {

// Columns of the totals. Each range is brought up to date in one way.
enum Column : std::int64_t {
  kCount,  // sums
  kMean,
  kLowestMean,  // minima
  kLowest,
  kLowestMoment,
  kHighestMean,  // maxima
  kHighest,
  kHighestMoment,
  kColumns
};
constexpr std::int64_t kSums = kLowestMean - kCount;
constexpr std::int64_t kMinima = kHighestMean - kLowestMean;
constexpr std::int64_t kMaxima = kColumns - kHighestMean;

/// Above every variance and moment, and unlike infinity a number that JSON knows.
constexpr double kHuge = std::numeric_limits<double>::max();

/// Layer weights, each with the row that it has in the totals.
std::map<std::size_t, std::int64_t> rows_of_weights(const LayerMap& map) {
  std::map<std::size_t, std::int64_t> rows;
  for (std::size_t i = 0; i < map.parameters().size(); ++i) {
    if (map.parameters()[i].is_layer_weight) {
      rows.emplace(i, static_cast<std::int64_t>(rows.size()));
    }
  }
  return rows;
}

torch::Device device_of(const LayerMap& map) {
  return map.parameters().empty() ? torch::Device(torch::kCPU)
                                  : map.parameters().front().tensor.device();
}

}  // namespace

class ActivationVariances::Inputs : public Listener {
 public:
  explicit Inputs(const LayerMap& map)
      : rows_(rows_of_weights(map)),
        totals_(torch::empty({static_cast<std::int64_t>(rows_.size()), kColumns},
                             torch::dtype(torch::kFloat64).device(device_of(map)))) {
    reset();
  }

  void on_input(const LayerUse& use, const torch::Tensor& input) override {
    const auto row = rows_.find(use.weight);
    if (row == rows_.end() || input.numel() == 0) return;
    const torch::NoGradGuard no_grad;
    auto values = use.geometry.batched(input).detach().flatten(/*start_dim=*/1);
    if (values.scalar_type() != torch::kFloat64) values = values.to(torch::kFloat32);
    const auto variance = values.var(/*dim=*/0, /*unbiased=*/false);
    const auto mean = variance.mean();
    const auto moment = values.square().mean(/*dim=*/0);
    const auto reading = torch::stack({torch::ones_like(mean), mean, mean, variance.min(),
                                       moment.min(), mean, variance.max(), moment.max()})
                             .to(torch::kFloat64);
    auto total = totals_.select(0, row->second);
    total.narrow(0, kCount, kSums).add_(reading.narrow(0, kCount, kSums));
    auto minima = total.narrow(0, kLowestMean, kMinima);
    torch::minimum_out(minima, minima, reading.narrow(0, kLowestMean, kMinima));
    auto maxima = total.narrow(0, kHighestMean, kMaxima);
    torch::maximum_out(maxima, maxima, reading.narrow(0, kHighestMean, kMaxima));
  }

  void reset() {
    const torch::NoGradGuard no_grad;
    totals_.zero_();
    totals_.narrow(1, kLowestMean, kMinima).fill_(kHuge);
  }

  const std::map<std::size_t, std::int64_t>& rows() const { return rows_; }
  /// The same memory for ever: captured graphs know where it is.
  torch::Tensor& totals() { return totals_; }

 private:
  std::map<std::size_t, std::int64_t> rows_;
  torch::Tensor totals_;  // (layers, kColumns)
};

ActivationVariances::ActivationVariances(torch::nn::Module& model)
    : map_(model), inputs_(std::make_shared<Inputs>(map_)), observer_(map_, inputs_) {}

std::vector<ActivationVariance> ActivationVariances::read() {
  observer_.rethrow_failure();
  std::vector<ActivationVariance> variances;
  const auto totals = inputs_->totals().cpu();
  const auto values = totals.accessor<double, 2>();
  for (const auto& [weight, row] : inputs_->rows()) {
    const auto& of_layer = values[row];
    const auto count = of_layer[kCount];
    if (count == 0.0) continue;
    variances.push_back({map_.parameters()[weight].name, of_layer[kMean] / count,
                         of_layer[kLowestMean], of_layer[kHighestMean], of_layer[kLowest],
                         of_layer[kHighest], of_layer[kLowestMoment], of_layer[kHighestMoment]});
  }
  return variances;
}

void ActivationVariances::reset() { inputs_->reset(); }

std::vector<double> ActivationVariances::totals() {
  const auto totals = inputs_->totals().cpu().contiguous();
  return {totals.data_ptr<double>(), totals.data_ptr<double>() + totals.numel()};
}

std::int64_t ActivationVariances::numbers_of(torch::nn::Module& model) {
  return static_cast<std::int64_t>(rows_of_weights(LayerMap(model)).size()) * kColumns;
}

void ActivationVariances::set_totals(const std::vector<double>& totals) {
  auto& here = inputs_->totals();
  TORCH_CHECK(static_cast<std::int64_t>(totals.size()) == here.numel(),
              "ActivationVariances: there are totals of ", totals.size() / kColumns,
              " layers, expected ", here.size(0));
  const torch::NoGradGuard no_grad;
  here.copy_(torch::tensor(totals, torch::kFloat64).view_as(here));
}

}  // namespace adaact
