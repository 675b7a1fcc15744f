#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <adaact/train/trainer.h>

#include "output.h"

namespace adaact::app {

/// What is printed once a training is ready and before all else.
using Introduction = std::function<void(const Trainer& trainer)>;

/// What a person sees of a training: on a terminal a bar that moves, in a pipe or a file a line for each
/// epoch, and nothing if it is to be quiet or JSON.
std::unique_ptr<TrainingCallback> make_progress(
    Verbosity verbosity, const Introduction& introduction = [](const Trainer&) {});

/// Where several train, one after the other or at once: lines that begin with the seed, under one heading.
std::function<std::unique_ptr<TrainingCallback>(std::uint64_t seed)> make_progress_of_seeds(
    Verbosity verbosity, const Introduction& introduction);

}  // namespace adaact::app
