#pragma once

#include "experiments/experiment.h"

namespace adaact {

// One file for each, or for two that share their runs. What they are is in the paper.
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

}  // namespace adaact
