#pragma once

#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

/// Every figure and table of the paper, in its order, and after them what it leaves open.
const std::vector<const Experiment*>& experiments();
/// An error with the nearest name where there is none.
const Experiment& experiment_named(const std::string& name);

// Each experiment has a file of its own, or shares it with another that has the same runs. What they show
// is in the paper.
const Experiment& fig_activation_variance();
const Experiment& fig_covariance_heatmap();
const Experiment& fig_power();
const Experiment& fig_bounded();
const Experiment& fig_step_size();
const Experiment& fig_no_batchnorm();
const Experiment& fig_cifar();
const Experiment& table_cifar();
const Experiment& table_imagenet_resnet();
const Experiment& table_imagenet_vit();
const Experiment& theory_convergence();

// Questions that the paper's text or its numbers raise, and that it has no figure or table for.
const Experiment& weight_decay();
const Experiment& foof_variants();
const Experiment& full_covariance_cost();
const Experiment& lenet_rates();
const Experiment& equal_effort();

}  // namespace adaact
