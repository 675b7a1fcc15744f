#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <adaact/ranks/communicator.h>

namespace adaact {

/// Ranks that count what is added up through them.
class MeteredRanks : public Communicator {
 public:
  struct Reading {
    std::int64_t messages = 0;
    std::int64_t bytes = 0;  // that this rank handed over
    std::int64_t largest_message = 0;
    double seconds_waited = 0.0;
  };

  explicit MeteredRanks(std::shared_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  const Reading& reading() const { return reading_; }
  void restart() { reading_ = {}; }

  std::int64_t rank() const override { return ranks_->rank(); }
  std::int64_t size() const override { return ranks_->size(); }
  std::unique_ptr<Pending> begin_sum(std::vector<torch::Tensor> tensors) override;
  void broadcast(const std::vector<torch::Tensor>& tensors, std::int64_t root) override;
  // What ranks tell one another before they begin is not counted.
  void barrier() override { ranks_->barrier(); }
  std::vector<std::string> gather(const std::string& text) override { return ranks_->gather(text); }
  std::string describe(std::int64_t rank) const override { return ranks_->describe(rank); }
  bool can_be_captured() const override { return ranks_->can_be_captured(); }
  void wait_for_stream() override { ranks_->wait_for_stream(); }
  bool is_alone() const override { return ranks_->is_alone(); }

 private:
  class MeteredSum;
  void count_message(const std::vector<torch::Tensor>& tensors);

  const std::shared_ptr<Communicator> ranks_;
  Reading reading_;
};

}  // namespace adaact
