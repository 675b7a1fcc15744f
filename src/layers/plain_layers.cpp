#include "layers/plain_layers.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace adaact {

bool may_be_fused(const torch::Tensor& input) {
  return input.is_cuda() && !PlainLayers::are_wanted() && !torch::jit::tracer::isTracing();
}

}  // namespace adaact
