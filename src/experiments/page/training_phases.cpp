#include "experiments/page/training_phases.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace adaact {
namespace {

std::ptrdiff_t tenth_of(const std::vector<double>& epochs) {
  return static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, epochs.size() / 10));
}

double mean_between(std::vector<double>::const_iterator begin,
                    std::vector<double>::const_iterator end) {
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

}  // namespace

double mean_of_first_tenth(const std::vector<double>& epochs) {
  return mean_between(epochs.begin(), epochs.begin() + tenth_of(epochs));
}

double mean_of_second_tenth(const std::vector<double>& epochs) {
  if (epochs.size() < 2) return mean_of_first_tenth(epochs);
  return mean_between(epochs.begin() + tenth_of(epochs), epochs.begin() + 2 * tenth_of(epochs));
}

double mean_of_last_tenth(const std::vector<double>& epochs) {
  return mean_between(epochs.end() - tenth_of(epochs), epochs.end());
}

}  // namespace adaact
