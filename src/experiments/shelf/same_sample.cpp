#include "experiments/shelf/same_sample.h"

#include <algorithm>
#include <cmath>

namespace adaact {
namespace {

bool are_equal(double one, double other) {
  return one == other || (std::isnan(one) && std::isnan(other));
}

}  // namespace

bool are_same_sample(const RunHistory& one, const RunHistory& other) {
  const auto is_same_epoch = [](const EpochMetrics& left, const EpochMetrics& right) {
    return are_equal(left.train_loss, right.train_loss) &&
           are_equal(left.test.top1, right.test.top1);
  };
  return one.divergence.has_value() == other.divergence.has_value() &&
         std::equal(one.epochs.begin(), one.epochs.end(), other.epochs.begin(), other.epochs.end(),
                    is_same_epoch);
}

}  // namespace adaact
