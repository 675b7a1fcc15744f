#include "train/bench/metered_ranks.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace adaact {
namespace {

double seconds_spent_in(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

class MeteredRanks::MeteredSum : public Communicator::Pending {
 public:
  MeteredSum(std::unique_ptr<Pending> sum, double& seconds_waited)
      : sum_(std::move(sum)), seconds_waited_(seconds_waited) {}
  void wait() override {
    seconds_waited_ += seconds_spent_in([this] { sum_->wait(); });
  }

 private:
  const std::unique_ptr<Pending> sum_;
  double& seconds_waited_;
};

void MeteredRanks::count_message(const std::vector<torch::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  ++reading_.messages;
  reading_.bytes += bytes;
  reading_.largest_message = std::max(reading_.largest_message, bytes);
}

std::unique_ptr<Communicator::Pending> MeteredRanks::begin_sum(std::vector<torch::Tensor> tensors) {
  count_message(tensors);
  return std::make_unique<MeteredSum>(ranks_->begin_sum(std::move(tensors)),
                                      reading_.seconds_waited);
}

void MeteredRanks::broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) {
  count_message(tensors);
  reading_.seconds_waited += seconds_spent_in([&] { ranks_->broadcast(tensors, root); });
}

}  // namespace adaact
