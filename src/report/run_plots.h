#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/courses.h"
#include "report/plot.h"
#include "report/run_groups.h"

namespace adaact {

/// A curve for each group, with a band of the mean's standard error where there are several seeds. Losses
/// and norms are on a logarithmic axis where they differ by more than a factor of 20: one diverging run
/// would flatten all others. The training loss, gradient norm and step time are smoothed over 2 % of the
/// steps, which takes the noise of single batches out.
Plot course_plot(const std::vector<RunGroup>& groups, Quantity quantity, Against against);

/// E[a²] of the input of every layer in the order of the model, after the last epoch of the first run of
/// each group.
Plot second_moments_by_layer(const std::vector<RunGroup>& groups);

/// E[a²] of the inputs of one run's layers over its epochs. Of a deep model some layers are shown,
/// evenly spread from the first to the last.
Plot second_moments_over_epochs(const std::string& name, const RunHistory& run);

/// How many layers second_moments_over_epochs() shows at most.
inline constexpr std::size_t kMostLayersShown = 6;

}  // namespace adaact
