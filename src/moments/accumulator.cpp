#include "moments/accumulator.h"

#include <algorithm>
#include <utility>

namespace adaact {

void MomentAccumulator::on_input(const LayerUse& use, const torch::Tensor& input) {
  auto moment = measure_(use, input);  // outside the lock: the expensive part
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = std::find_if(pending_.begin(), pending_.end(), [&](const PendingMoment& pending) {
    return pending.weight == use.weight && pending.row_begin == use.row_begin &&
           pending.row_end == use.row_end && pending.moment.sum.defined() == moment.sum.defined() &&
           (!moment.sum.defined() || pending.moment.sum.sizes() == moment.sum.sizes());
  });
  if (known == pending_.end()) {
    known = pending_.insert(known, {use.weight, use.row_begin, use.row_end, std::move(moment), {}});
  } else {
    // A model moved between two micro-batches: what was summed follows it.
    if (moment.sum.defined()) {
      known->moment.sum = known->moment.sum.to(moment.sum.options()).add_(moment.sum);
    }
    known->moment.count += moment.count;
  }
  if (use.bias != LayerMap::kNotFound) known->biases.push_back(use.bias);
}

std::vector<PendingMoment> MomentAccumulator::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(pending_, {});
}

}  // namespace adaact
