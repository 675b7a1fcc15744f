#pragma once

#include <string>

#include <adaact/report/run_history.h>

namespace adaact::testing {

/// Adds variances and second moments of LeNet-5's inputs, the same in each epoch. The images that
/// conv1 reads vary most.
inline void add_variances(RunHistory& history, double variance_of_activations) {
  for (auto& epoch : history.epochs) {
    for (const std::string layer : {"conv1", "conv2", "fc1", "fc2", "fc3"}) {
      const double mean = layer == "conv1" ? 777.0 : variance_of_activations;
      epoch.activation_variances.push_back({layer + ".weight", mean, 0.5 * mean, 2.0 * mean,
                                            0.1 * mean, 10.0 * mean, 0.2 * mean, 20.0 * mean});
      epoch.second_moments.emplace_back(layer + ".weight", 1.5 * mean);
    }
  }
}

}  // namespace adaact::testing
