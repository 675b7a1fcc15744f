#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/optim/registry.h>
#include <adaact/train/run_config.h>

#include "experiments/shelf/experiment.h"

namespace adaact {

// The training runs of the paper's CIFAR experiments, and what an experiment's form makes of them.

/// In the order of the paper: adaact, sgd, adam, adamw, adan, kfac, foof.
const std::vector<std::string>& paper_optimizers();

/// A setting of the file of an optimizer in configs/: "cifar10", "imagenet-vit".
OptimizerConfig paper_setting(const std::string& optimizer, const std::string& setting);

/// The hyperparameters of the paper's CIFAR table, as JSON. Of a data set that the table does not have those
/// of CIFAR-10.
std::string paper_options(const std::string& optimizer, const std::string& dataset);

/// A run of the paper: 200 epochs at batch 128 with crops and flips, the learning rate by the
/// cosine of the epoch.
RunConfig paper_run(const std::string& optimizer, const std::string& model,
                    const std::string& dataset, std::uint64_t seed);

/// Leaves so few images and epochs that a run takes seconds on two cores: LeNet-5 about 10,
/// ResNet-20 about 15.
void shrink(RunConfig& config);

/// The data set of a form whose experiment has `papers` in the paper.
std::string dataset_of(const ExperimentForm& form, const std::string& papers);

/// The seeds of a form; of a quick one without any, seed 0.
std::vector<std::uint64_t> seeds_of(const ExperimentForm& form,
                                    const std::vector<std::uint64_t>& own);

}  // namespace adaact
