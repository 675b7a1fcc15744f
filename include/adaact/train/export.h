#pragma once

#include <cstdint>
#include <filesystem>

#include <adaact/train/model_card.h>

namespace adaact {

struct ExportReport {
  ModelCard card;
  std::uintmax_t bytes = 0;
  /// How far the module's outputs are from the model's own, over `images_compared` random images.
  double largest_difference = 0.0;
  std::int64_t images_compared = 0;
};

/// Writes trained weights as TorchScript, which `torch.jit.load` of Python and `torch::jit::load` of C++ read
/// without this library.
///
/// The module takes images (N, channels, height, width) as float32 in [0, 1], any number of them, normalises
/// them and returns logits (N, classes). Parameters and buffers have the names of Python's state_dict().
/// Attributes say the rest: `classes`, `channels`, `image_size`, `resize_size`, `mean`, `std`, `model`.
///
/// What was written is loaded again and held against the model itself, for batches of several sizes, before
/// the file is put in its place; a difference of more than 1e-5 is an error.
ExportReport export_torchscript(const std::filesystem::path& weights,
                                const std::filesystem::path& out);

/// Writes trained weights as safetensors, after a check that they are whole and those of the model that they
/// say they are.
ExportReport export_safetensors(const std::filesystem::path& weights,
                                const std::filesystem::path& out);

}  // namespace adaact
