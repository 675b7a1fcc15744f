#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/step/step_engine.h"

namespace adaact {

/// Steps in CUDA graphs: forward, observation, loss and backward for each batch of a step, clipping and update, and
/// evaluation too. Where the data fit into the memory of the GPU and are no more than cropped and flipped, the graphs
/// make the batches, otherwise the loaders do. FOOF, KFAC and AdaAct's full covariance, which decide from step to
/// step, have a graph for the passes and one for the update. Works on the current stream, which must not
/// be the default one; start() and what follows may be on another one than before. A build without CUDA
/// throws.
std::unique_ptr<StepEngine> make_graph_engine(const TrainingTask& task, std::int64_t accumulation,
                                              double clip_norm);

/// Why there can be no such engine for this optimizer; empty where there can.
std::string obstacle_to_graph_engine(const torch::optim::Optimizer& optimizer);

}  // namespace adaact
