#pragma once

#include <cstddef>
#include <vector>

#include "report/named_runs.h"
#include "report/plot.h"

namespace adaact {

enum class Against { Epochs, Seconds };

/// The training loss, averaged over 2 % of a run's steps, which takes the noise of single batches
/// out. Logarithmic where losses differ by more than a factor of 20: one diverging run would
/// flatten all others.
Plot train_loss_plot(const std::vector<NamedRun>& runs, Against against);

Plot test_accuracy_plot(const std::vector<NamedRun>& runs, Against against);

/// E[a²] of the input of every layer in the order of the model, after the last epoch of each run.
Plot second_moments_by_layer(const std::vector<NamedRun>& runs);

/// E[a²] of the inputs of one run's layers over its epochs. Of a deep model some layers are shown,
/// evenly spread from the first to the last.
Plot second_moments_over_epochs(const NamedRun& run);

/// How many layers second_moments_over_epochs() shows at most.
inline constexpr std::size_t kMostLayersShown = 6;

}  // namespace adaact
