// Shapes: N images, T tokens (the class token and one per patch), C channels of a token, H heads,
// D = C/H.

#include <adaact/models/vit.h>

#include <cmath>

#include <torch/nn/init.h>
#include <torch/version.h>

#include "layers/layer_norm.h"
#include "layers/linear.h"
#include "layers/patches.h"
#include "models/drop_path.h"
#include "models/layers.h"

namespace adaact {
namespace {

constexpr double kInitialDeviation = 0.02;

/// softmax(q kᵀ/√D) v, each (N, H, T, D). One kernel on a GPU where LibTorch has it, which never writes
/// the (N, H, T, T) attention to memory.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(q, k, v);
#else
  const auto scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::softmax((q * scale).matmul(k.transpose(2, 3)), -1).matmul(v);
#endif
}

torch::nn::LayerNorm layer_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

class Attention : public torch::nn::Module {
 public:
  Attention(int64_t width, int64_t heads) : heads_(heads) {
    qkv_ = register_module("qkv", torch::nn::Linear(width, 3 * width));
    proj_ = register_module("proj", torch::nn::Linear(width, width));
  }

  /// The input of projection(). Nothing in it depends on the number of images N, so that a trace of it takes any.
  torch::Tensor forward(const torch::Tensor& x) {
    // Not select(), whose gradients are filled with zeros and added; and where the three lie side by side, so that
    // their gradients are put together once, in the order of the product before.
    const auto qkv =
        linear(qkv_, x)                                               // (N, T, 3C)
            .reshape({-1, x.size(1), 3, heads_, x.size(2) / heads_})  // (N, T, 3, H, D)
            .unbind(2);
    const auto by_head = [](const torch::Tensor& part) {
      return part.transpose(1, 2);
    };  // (N, H, T, D)
    const auto mixed = attend(by_head(qkv[0]), by_head(qkv[1]), by_head(qkv[2]));
    return mixed.transpose(1, 2).flatten(2);  // (N, T, C)
  }
  const torch::nn::Linear& projection() const noexcept { return proj_; }

 private:
  int64_t heads_;
  torch::nn::Linear qkv_{nullptr}, proj_{nullptr};
};

class FeedForward : public torch::nn::Module {
 public:
  FeedForward(int64_t width, int64_t hidden) {
    fc1_ = register_module("fc1", torch::nn::Linear(width, hidden));
    fc2_ = register_module("fc2", torch::nn::Linear(hidden, width));
  }

  /// The input of projection().
  torch::Tensor forward(const torch::Tensor& x) { return linear_gelu(fc1_, x); }
  const torch::nn::Linear& projection() const noexcept { return fc2_; }

 private:
  torch::nn::Linear fc1_{nullptr}, fc2_{nullptr};
};

/// Their sum is what a block passes on; the next normalisation adds it up.
struct Tokens {
  ResidualStream stream;  // (N, T, C)
  Branch branch;          // nothing before the first block
};

/// The branch of the class token alone, (N, C).
Branch class_token_of(const Branch& branch) {
  return {branch.values.defined() ? branch.values.select(1, 0) : branch.values, branch.bias};
}

torch::Tensor class_token_of(const Tokens& tokens) {
  const ResidualStream stream{tokens.stream.values.select(1, 0),
                              class_token_of(tokens.stream.unwritten)};
  return stream.sum() + class_token_of(tokens.branch).sum();
}

class Block : public torch::nn::Module {
 public:
  Block(const VisionTransformerOptions& options, double drop_path_rate)
      : drop_path_rate_(drop_path_rate) {
    const auto width = options.width;
    norm1_ = register_module("norm1", layer_norm(width));
    attn_ = register_module("attn", std::make_shared<Attention>(width, options.heads));
    norm2_ = register_module("norm2", layer_norm(width));
    mlp_ = register_module("mlp", std::make_shared<FeedForward>(width, options.mlp_ratio * width));
  }

  Tokens forward(const Tokens& x) {
    const auto first = add_layer_norm(norm1_, x.stream, x.branch);
    const auto attention = branch_of(attn_->projection(), attn_->forward(first.output));
    const auto second = add_layer_norm(norm2_, first.stream, attention);
    return {second.stream, branch_of(mlp_->projection(), mlp_->forward(second.output))};
  }

 private:
  Branch branch_of(const torch::nn::Linear& projection, const torch::Tensor& x) const {
    if (drop_path_rate_ == 0.0 || !is_training()) return linear_branch(projection, x);
    return {drop_path(linear(projection, x), drop_path_rate_, /*training=*/true), {}};
  }

  double drop_path_rate_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<FeedForward> mlp_;
};

void check_divisible(const char* what, int64_t value, int64_t divisor, const char* by_what) {
  TORCH_CHECK(value > 0 && divisor > 0 && value % divisor == 0, "VisionTransformer: ", what, " is ",
              value, ", expected a multiple of ", by_what, ", ", divisor);
}

}  // namespace

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options)
    : Model("head"), options_(options) {
  check_divisible("image_size", options.image_size, options.patch_size, "patch_size");
  check_divisible("width", options.width, options.heads, "heads");
  const auto side = options.image_size / options.patch_size;
  cls_token_ = register_parameter("cls_token", torch::empty({1, 1, options.width}));
  pos_embed_ = register_parameter("pos_embed", torch::empty({1, 1 + side * side, options.width}));
  projection_ = torch::nn::Conv2d(
      torch::nn::Conv2dOptions(options.channels, options.width, options.patch_size)
          .stride(options.patch_size));
  torch::nn::Sequential patch_embed;
  patch_embed->push_back("proj", projection_);
  register_module("patch_embed", patch_embed);
  blocks_ = register_module("blocks", torch::nn::Sequential());
  for (int64_t block = 0; block < options.depth; ++block) {
    const auto rate = drop_path_rate(options.drop_path, block, options.depth);
    blocks_->push_back(std::make_shared<Block>(options, rate));
  }
  norm_ = register_module("norm", layer_norm(options.width));
  head_ = register_module("head", torch::nn::Linear(options.width, options.classes));

  // timm draws truncated normals, but truncates at ±2, a hundred deviations away.
  torch::nn::init::normal_(pos_embed_, 0.0, kInitialDeviation);
  torch::nn::init::normal_(cls_token_, 0.0, 1e-6);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* linear = module->as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0.0, kInitialDeviation);
      torch::nn::init::zeros_(linear->bias);
    }
  }
}

torch::Tensor VisionTransformer::forward(const torch::Tensor& images) {
  check_images("VisionTransformer", images, options_.channels, options_.image_size);
  const auto patches = embed_patches(projection_, images);                 // (N, T−1, C)
  const auto class_token = cls_token_.expand_as(patches.slice(1, 0, 1));   // (N, 1, C)
  const auto tokens = torch::cat({class_token, patches}, 1) + pos_embed_;  // (N, T, C)
  const auto last = blocks_->forward<Tokens>(Tokens{{tokens, {}}, {}});
  // The head reads the class token alone, and normalisation treats every token by itself.
  return linear(head_, norm_->forward(class_token_of(last)));
}

}  // namespace adaact
