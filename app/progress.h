#pragma once

#include <cstdint>
#include <memory>

#include <adaact/train/trainer.h>

#include "output.h"

namespace adaact::app {

/// What a person sees of a training: on a terminal a bar that moves, in a pipe or a file a line for each
/// epoch, and nothing if it is to be quiet or JSON.
std::unique_ptr<TrainingCallback> make_progress(Verbosity verbosity);

/// Where several train at once: lines that begin with the seed, under one heading.
void print_heading_of_seeds();
std::unique_ptr<TrainingCallback> make_progress_of_seed(Verbosity verbosity, std::uint64_t seed);

}  // namespace adaact::app
