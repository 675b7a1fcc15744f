#pragma once

#include <adaact/models/model.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace adaact {

/// The defaults are ViT-S/16, timm's deit_small_patch16_224.
struct VisionTransformerOptions {
  int64_t channels = 3;
  int64_t image_size = 224;
  int64_t patch_size = 16;
  int64_t classes = 1000;
  int64_t width = 384;
  int64_t depth = 12;
  int64_t heads = 6;
  int64_t mlp_ratio = 4;
  double drop_path = 0.0;  // of the last block; it grows linearly from 0 at the first
};

/// Vision Transformer with a class token, pre-normalised blocks and fused query, key and value
/// (Dosovitskiy et al., https://arxiv.org/abs/2010.11929). State names and initialisation are
/// timm's.
class VisionTransformer : public Model {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& options = {});

  torch::Tensor forward(const torch::Tensor& images) override;

 private:
  VisionTransformerOptions options_;
  torch::Tensor cls_token_;                // (1, 1, width)
  torch::Tensor pos_embed_;                // (1, 1 + patches, width)
  torch::nn::Conv2d projection_{nullptr};  // of patches
  torch::nn::Sequential blocks_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};

}  // namespace adaact
