#include "kernels/clip_norm_cuda.h"
#include "kernels/without_cuda.h"

namespace adaact {

void clip_norm_cuda(const std::vector<torch::Tensor>& /*tensors*/, const torch::Tensor& /*norm*/,
                    double /*largest*/) {
  throw_without_cuda("clip_norm_cuda()");
}

}  // namespace adaact
