#include "train/bench/memory_traffic.h"

#include <atomic>
#include <vector>

#include <torch/torch.h>

#include "kernels/each_once.h"
#include "train/bench/timed_work.h"

namespace adaact {
namespace {

constexpr std::int64_t kCopiedBytes = std::int64_t{1} << 28;  // several times a GPU's cache
constexpr int kCopies = 20;                                   // of a round
constexpr int kCopyRounds = 5;

}  // namespace

class StatisticsTraffic::Inputs : public Listener {
 public:
  void on_input(const LayerUse& use, const torch::Tensor& input) override {
    const auto features = use.geometry.features(use.geometry.batched(input));
    const auto sums = use.geometry.groups * features * static_cast<std::int64_t>(sizeof(float));
    bytes += static_cast<std::int64_t>(input.nbytes()) + 2 * sums;
  }
  std::atomic<std::int64_t> bytes{0};
};

StatisticsTraffic::StatisticsTraffic(torch::nn::Module& model)
    : inputs_(std::make_shared<Inputs>()), observer_(model, inputs_) {}

std::int64_t StatisticsTraffic::bytes() const { return inputs_->bytes; }

std::int64_t update_traffic(const torch::nn::Module& model, std::int64_t state_bytes) {
  std::int64_t parameter_bytes = 0;
  for (const auto& parameter : each_once(model.parameters())) {
    parameter_bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  return 3 * parameter_bytes + 2 * state_bytes;  // a gradient is as large as its parameter
}

double copy_bytes_per_second(torch::Device device) {
  const auto from = torch::zeros({kCopiedBytes}, torch::dtype(torch::kByte).device(device));
  const auto to = torch::zeros_like(from);
  std::vector<double> rounds;
  rounds.reserve(kCopyRounds);
  for (int round = 0; round < kCopyRounds; ++round) {
    rounds.push_back(milliseconds_of(device, [&] {
      for (int i = 0; i < kCopies; ++i) to.copy_(from);
    }));
  }
  return 2.0 * static_cast<double>(kCopiedBytes) * kCopies / (1e-3 * median(rounds));
}

}  // namespace adaact
