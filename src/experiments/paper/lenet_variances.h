#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <adaact/train/metrics.h>

#include "experiments/page/curves.h"
#include "experiments/shelf/experiment.h"
#include "report/mean_and_error.h"

namespace adaact {

// How activations of LeNet-5 vary while it is trained: what two figures of the paper and one of its
// appendix show.

/// A run that these figures share: nothing is trained twice.
PlannedRun lenet_run(const std::string& optimizer, const ExperimentForm& form, std::uint64_t seed);

/// The layers whose input is an activation: all but the first, which reads images.
std::vector<std::string> hidden_layers(const std::vector<RunSeries>& all);
/// What a layer reads, called by the layer that made it as in the paper: "conv1 out" for "conv2".
std::string label_of(const std::string& layer);
/// What these labels mean, for the reader of a page.
inline constexpr char kHiddenLayers[] =
    "conv1 out is the output of conv1 as the next layer reads it, after ReLU and pooling; fc1 out "
    "is that of fc1 after ReLU. Images are left out, because they are no activations, and so is "
    "the output of fc3, which no layer reads.";

/// How much the input of a layer varies in each epoch, over all seeds together.
std::vector<ActivationVariance> variances_by_epoch(const RunSeries& series,
                                                   const std::string& layer);

/// The mean variance of each epoch, over the runs of a series.
std::vector<MeanAndError> mean_variances_by_epoch(const RunSeries& series,
                                                  const std::string& layer);

/// E[a²] of what a layer reads, as AdaAct has it: over patches with their padding where it is a
/// convolution. The mean of the last steps of all epochs, over the seeds; NaN where there is none.
double mean_second_moment(const RunSeries& series, const std::string& layer);

/// Several variances as one: mean of the means, lowest of the lowest, highest of the highest. NaN
/// where one of them is NaN, or where there is none: nothing can be said then.
ActivationVariance together(const std::vector<ActivationVariance>& measured);

/// A variance with three digits.
std::string variance_text(double variance);

}  // namespace adaact
