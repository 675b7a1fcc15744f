#include "kernels/without_cuda.h"
#include "layers/batch_norm_cuda.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/layer_norm_cuda.h"

namespace adaact {

NormalisedBatch batch_norm_forward_cuda(const torch::Tensor& /*x*/,
                                        const torch::Tensor& /*residual*/,
                                        const torch::Tensor& /*weight*/,
                                        const torch::Tensor& /*bias*/,
                                        const RunningStatistics& /*running*/, double /*eps*/,
                                        bool /*relu*/) {
  throw_without_cuda("batch_norm_forward_cuda()");
}

BatchNormGradients batch_norm_backward_cuda(const BatchNormPass& /*pass*/,
                                            const torch::Tensor& /*gradient*/,
                                            const torch::Tensor& /*second_gradient*/,
                                            const torch::Tensor& /*sum*/) {
  throw_without_cuda("batch_norm_backward_cuda()");
}

bool has_layer_norm_kernel(std::int64_t /*channels*/, torch::ScalarType /*stream*/) {
  return false;
}

NormalisedRows layer_norm_forward_cuda(const torch::Tensor& /*x*/, const torch::Tensor& /*branch*/,
                                       const torch::Tensor& /*branch_bias*/,
                                       const torch::Tensor& /*weight*/,
                                       const torch::Tensor& /*bias*/, double /*eps*/,
                                       torch::ScalarType /*output_dtype*/) {
  throw_without_cuda("layer_norm_forward_cuda()");
}

LayerNormGradients layer_norm_backward_cuda(const NormalisedRows& /*rows*/,
                                            const torch::Tensor& /*weight*/,
                                            const torch::Tensor& /*output_gradient*/,
                                            const torch::Tensor& /*stream_gradient*/,
                                            Added /*added*/) {
  throw_without_cuda("layer_norm_backward_cuda()");
}

torch::Tensor bias_gelu_forward_cuda(const torch::Tensor& /*x*/, const torch::Tensor& /*bias*/) {
  throw_without_cuda("bias_gelu_forward_cuda()");
}

BiasGeluGradients bias_gelu_backward_cuda(const torch::Tensor& /*gradient*/,
                                          const torch::Tensor& /*x*/,
                                          const torch::Tensor& /*bias*/) {
  throw_without_cuda("bias_gelu_backward_cuda()");
}

}  // namespace adaact
