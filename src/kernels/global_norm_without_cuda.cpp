#include "kernels/global_norm_cuda.h"
#include "kernels/without_cuda.h"

namespace adaact {

torch::Tensor global_norm_cuda(const std::vector<torch::Tensor>& /*tensors*/) {
  throw_without_cuda("global_norm_cuda()");
}

}  // namespace adaact
