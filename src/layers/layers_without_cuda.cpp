#include "kernels/without_cuda.h"
#include "layers/average_pool_cuda.h"
#include "layers/batch_norm_cuda.h"
#include "layers/bias_gelu_cuda.h"
#include "layers/copy_channels_cuda.h"
#include "layers/cross_entropy_cuda.h"
#include "layers/global_average_cuda.h"
#include "layers/layer_norm_cuda.h"
#include "layers/max_pool_cuda.h"
#include "layers/shortened_cuda.h"

namespace adaact {

torch::Tensor average_pool_forward_cuda(const torch::Tensor& /*images*/, std::int64_t /*size*/) {
  throw_without_cuda("average_pool_forward_cuda()");
}

torch::Tensor average_pool_backward_cuda(const torch::Tensor& /*gradient*/,
                                         at::IntArrayRef /*shape*/, std::int64_t /*size*/) {
  throw_without_cuda("average_pool_backward_cuda()");
}

NormalisedBatch batch_norm_forward_cuda(const torch::Tensor& /*x*/,
                                        const torch::Tensor& /*residual*/,
                                        const torch::Tensor& /*weight*/,
                                        const torch::Tensor& /*bias*/,
                                        const RunningStatistics& /*running*/, double /*eps*/,
                                        bool /*relu*/, bool /*with_squares*/) {
  throw_without_cuda("batch_norm_forward_cuda()");
}

BatchNormGradients batch_norm_backward_cuda(const BatchNormPass& /*pass*/,
                                            const torch::Tensor& /*gradient*/,
                                            const torch::Tensor& /*second_gradient*/,
                                            const torch::Tensor& /*sum*/,
                                            bool /*may_overwrite_gradient*/) {
  throw_without_cuda("batch_norm_backward_cuda()");
}

void copy_channels_cuda(const torch::Tensor& /*from*/, const torch::Tensor& /*to*/) {
  throw_without_cuda("copy_channels_cuda()");
}

bool has_layer_norm_kernel(std::int64_t /*channels*/, torch::ScalarType /*stream*/) {
  return false;
}

NormalisedRows layer_norm_forward_cuda(const SummedRows& /*rows*/, const torch::Tensor& /*weight*/,
                                       const torch::Tensor& /*bias*/, double /*eps*/,
                                       torch::ScalarType /*output_dtype*/, bool /*sum_squares*/) {
  throw_without_cuda("layer_norm_forward_cuda()");
}

LayerNormGradients layer_norm_backward_cuda(const NormalisedRows& /*rows*/,
                                            const torch::Tensor& /*weight*/,
                                            const torch::Tensor& /*output_gradient*/,
                                            const torch::Tensor& /*stream_gradient*/,
                                            Added /*added*/) {
  throw_without_cuda("layer_norm_backward_cuda()");
}

BiasGeluOutput bias_gelu_forward_cuda(const torch::Tensor& /*x*/, const torch::Tensor& /*bias*/,
                                      bool /*sum_squares*/) {
  throw_without_cuda("bias_gelu_forward_cuda()");
}

BiasGeluGradients bias_gelu_backward_cuda(const torch::Tensor& /*gradient*/,
                                          const torch::Tensor& /*x*/,
                                          const torch::Tensor& /*bias*/) {
  throw_without_cuda("bias_gelu_backward_cuda()");
}

CrossEntropy cross_entropy_cuda(const torch::Tensor& /*logits*/, const torch::Tensor& /*labels*/,
                                double /*label_smoothing*/, double /*divisor*/) {
  throw_without_cuda("cross_entropy_cuda()");
}

Pooled max_pool_forward_cuda(const torch::Tensor& /*x*/, const PoolWindow& /*window*/,
                             bool /*with_winners*/) {
  throw_without_cuda("max_pool_forward_cuda()");
}

torch::Tensor max_pool_backward_cuda(const torch::Tensor& /*gradient*/,
                                     const torch::Tensor& /*winners*/, const PoolWindow& /*window*/,
                                     std::int64_t /*height*/, std::int64_t /*width*/) {
  throw_without_cuda("max_pool_backward_cuda()");
}

torch::Tensor global_average_backward_cuda(const torch::Tensor& /*gradient*/,
                                           std::int64_t /*height*/, std::int64_t /*width*/,
                                           bool /*channels_last*/) {
  throw_without_cuda("global_average_backward_cuda()");
}

torch::Tensor shorten_cuda(const torch::Tensor& /*images*/, std::int64_t /*stride*/,
                           std::int64_t /*before*/, std::int64_t /*after*/) {
  throw_without_cuda("shorten_cuda()");
}

torch::Tensor lengthen_cuda(const torch::Tensor& /*gradient*/, at::IntArrayRef /*shape*/,
                            std::int64_t /*stride*/, std::int64_t /*before*/) {
  throw_without_cuda("lengthen_cuda()");
}

}  // namespace adaact
