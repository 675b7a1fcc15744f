#pragma once

// Passes of a classifier over a batch. What they return is still on the device, and nobody has waited for
// it: whoever needs a number reads it.

#include <cstdint>

#include <adaact/data/loader.h>
#include <adaact/models/model.h>
#include <adaact/train/loss.h>
#include <adaact/train/metrics.h>
#include <torch/types.h>

#include "train/step/targets.h"

namespace adaact {

/// How passes are computed, whatever they are for.
struct PassSettings {
  torch::Device device = torch::kCPU;
  bool bf16 = false;             // autocast
  bool channels_last = false;    // images; the weights are the model's own matter
  double label_smoothing = 0.0;  // of the loss that is trained
  Loss loss = Loss::CrossEntropy;

  /// Under autocast on a GPU images are rounded when they are made, and not a second time, with a copy that lives
  /// until the backward pass, by the first layer.
  torch::ScalarType image_dtype() const {
    return bf16 && device.is_cuda() ? torch::kBFloat16 : torch::kFloat32;
  }
};

/// A batch's images where and how the model wants them.
torch::Tensor prepared_images(const Batch& batch, const PassSettings& settings);

struct TrainingPass {
  torch::Tensor loss;
  torch::Tensor logits;  // (B, classes)
  torch::Tensor hits;    // () kLong, where they were counted with the loss

  /// Of a mixed image the label that has more of it is the right one.
  torch::Tensor correct(const Targets& targets) const {
    return hits.defined() ? hits : logits.argmax(1).eq(targets.likelier()).sum();
  }
};

/// Forward and backward. The loss is the images' share of the mean over all `images_of_step`; its
/// gradients are added to those that are there.
TrainingPass training_pass(Model& model, const torch::Tensor& images, const Targets& targets,
                           std::int64_t images_of_step, const PassSettings& settings);

/// (B, 5) kLong: the classes with the highest logits, the highest first; all of fewer than five.
torch::Tensor best_classes(const torch::Tensor& logits);

/// (3) float64, sums over the images: loss, right answers, and right ones among the first five.
torch::Tensor evaluation_sums(const torch::Tensor& logits, const torch::Tensor& best,
                              const torch::Tensor& labels);

/// evaluation_sums() of what the model says.
torch::Tensor evaluation_pass(Model& model, const torch::Tensor& images,
                              const torch::Tensor& labels, const PassSettings& settings);

/// Makes means of the sums, which are added up over all batches and on the CPU.
Evaluation to_evaluation(const torch::Tensor& sums, std::int64_t images);

}  // namespace adaact
