#include <c10/util/Exception.h>

#include "train/graph/graph_engine.h"
#include "train/graph/replayed_step.h"

namespace adaact {

Recorder cuda_graph_recorder(const std::function<void()>& /*wait_for_stream*/) {
  TORCH_CHECK(false, "CUDA graphs need a build with CUDA");
}

std::unique_ptr<StepEngine> make_graph_engine(const TrainingTask& /*task*/,
                                              std::int64_t /*accumulation*/, double /*clip_norm*/) {
  TORCH_CHECK(false, "steps in CUDA graphs need a build with CUDA");
}

std::string obstacle_to_graph_engine(const torch::optim::Optimizer& /*optimizer*/) {
  return "this is a build without CUDA";
}

}  // namespace adaact
