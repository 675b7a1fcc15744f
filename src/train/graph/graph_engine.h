#pragma once

#include <memory>
#include <string>

#include "train/step/step_engine.h"

namespace adaact {

/// Steps in CUDA graphs, with the data in the memory of the GPU: batch, forward, observation, loss, backward
/// and update, and evaluation too. FOOF, KFAC and AdaAct's full covariance, which decide from step to
/// step, have a graph for the passes and one for the update. Works on the current stream, which must not
/// be the default one; start() and what follows may be on another one than before. A build without CUDA
/// throws.
std::unique_ptr<StepEngine> make_graph_engine(const TrainingTask& task);

/// Why there can be no such engine for these; empty where there can.
std::string obstacle_to_graph_engine(const torch::optim::Optimizer& optimizer,
                                     const Loader& train_data, const Loader& test_data,
                                     torch::Device device);

}  // namespace adaact
