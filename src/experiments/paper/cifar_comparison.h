#pragma once

#include <string>
#include <vector>

#include "experiments/shelf/experiment.h"

namespace adaact {

// The runs that the paper's CIFAR table and CIFAR figure are made of: seven optimizers on four pairs of
// data set and model.

/// The plan of these runs. A data set that the paper does not have is trained with the models for
/// CIFAR-10. A quick form trains ResNet-20 alone: the others would take hours.
ExperimentPlan cifar_comparison(const ExperimentForm& form,
                                const std::vector<std::uint64_t>& seeds);

/// What there is of one optimizer on one pair.
struct CifarCell {
  std::string dataset;
  std::string model;
  std::string optimizer;
  std::vector<const RunHistory*> runs;  // all that were carried out

  std::string title() const;  // "ResNet-20 on CIFAR-10"
};

/// The cells of one pair, in the paper's order of the optimizers.
using CifarColumn = std::vector<CifarCell>;

/// All columns in the order of the plan. They refer to `found`.
std::vector<CifarColumn> cifar_columns(const Found& found);

}  // namespace adaact
