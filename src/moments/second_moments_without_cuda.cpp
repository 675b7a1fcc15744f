#include "kernels/without_cuda.h"
#include "moments/second_moments_cuda.h"

namespace adaact {

std::vector<Moment> second_moments_cuda(const std::vector<MomentInput>& /*inputs*/) {
  throw_without_cuda("second_moments_cuda()");
}

Moment second_moment_cuda(const torch::Tensor& /*input*/, const Geometry& /*geometry*/) {
  throw_without_cuda("second_moment_cuda()");
}

}  // namespace adaact
