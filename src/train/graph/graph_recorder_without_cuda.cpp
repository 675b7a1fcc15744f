#include <c10/util/Exception.h>

#include "train/graph/replayed_work.h"

namespace adaact {

Recorder cuda_graph_recorder() { TORCH_CHECK(false, "CUDA graphs need a build with CUDA"); }

}  // namespace adaact
