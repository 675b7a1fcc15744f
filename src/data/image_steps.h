#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <adaact/data/augment.h>
#include <adaact/data/dataset.h>
#include <adaact/data/loader.h>

#include "data/encoded_part.h"

namespace adaact {

/// What becomes of a sample on its way into a batch: it is read, cropped, flipped and changed by RandAugment, which
/// gives bytes; these are normalised and perhaps erased. Immutable; refers to the data set.
class ImageSteps {
 public:
  ImageSteps(const Dataset& dataset, const LoaderOptions& options);

  /// Memory that goes from one image to the next.
  struct Scratch {
    std::vector<std::uint8_t> read;
    std::vector<std::uint8_t> bytes;
  };

  /// Takes all steps for a sample and writes its values, those of one image in a batch, to `out`.
  void write(std::int64_t epoch, std::int64_t sample, Scratch& scratch, float* out) const;

  /// The first of the steps: a sample's bytes, cropped to the size of all and flipped.
  void crop(std::int64_t epoch, std::int64_t sample, Scratch& scratch, std::uint8_t* out) const;

  /// What crop() would take of a sample's file, for somebody else to decode and scale to the same pixels; nothing where
  /// nobody else can, or where something is wrong with the file.
  std::optional<EncodedPart> encoded_part_of(std::int64_t epoch, std::int64_t sample) const;

  /// The two halves of write(): the steps that give bytes, and those that make values of them. Between the halves
  /// images may be mixed.
  void make_bytes(std::int64_t epoch, std::int64_t sample, Scratch& scratch,
                  std::uint8_t* out) const;
  void finish(std::int64_t epoch, std::int64_t sample, const std::uint8_t* bytes, float* out) const;

  /// (C, 256): what a byte of a channel becomes.
  const std::vector<float>& values() const { return augmenter_.values(); }

 private:
  AugmentDraw draw(std::int64_t epoch, std::int64_t sample) const;
  ChoosePart resized_crop_of(std::int64_t epoch, std::int64_t sample) const;
  const std::uint8_t* pixels_of(std::int64_t sample, Scratch& scratch) const;
  void erase(std::int64_t epoch, std::int64_t sample, float* out) const;

  const Dataset& dataset_;
  const AugmentOptions options_;
  const std::uint64_t seed_;
  const Augmenter augmenter_;
  std::vector<std::uint8_t> same_bytes_;  // (C, 256): every byte itself
};

}  // namespace adaact
