#include "data/image_steps.h"

#include <c10/util/Exception.h>

#include "data/crop_and_flip.h"
#include "data/rand_augment.h"
#include "data/random_erasing.h"
#include "data/resized_crop.h"

namespace adaact {
namespace {

std::uint32_t as_word(std::int64_t number) { return static_cast<std::uint32_t>(number); }

/// A resized crop comes in place of that of the padded image.
AugmentOptions with_one_crop(AugmentOptions options) {
  if (options.resized_crop) options.crop_padding = 0;
  return options;
}

}  // namespace

ImageSteps::ImageSteps(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      options_(with_one_crop(options.augment)),
      seed_(options.seed),
      augmenter_(dataset.shape(), dataset.normalization(), options_, options.layout) {
  for (std::int64_t i = 0; i < dataset.shape().channels * 256; ++i) {
    same_bytes_.push_back(static_cast<std::uint8_t>(i % 256));
  }
}

AugmentDraw ImageSteps::draw(std::int64_t epoch, std::int64_t sample) const {
  return draw_augment(options_, seed_, as_word(epoch), as_word(sample));
}

const std::uint8_t* ImageSteps::pixels_of(std::int64_t sample, Scratch& scratch) const {
  const auto* pixels = dataset_.pixels(sample);
  if (pixels != nullptr) return pixels;
  scratch.read.resize(static_cast<std::size_t>(dataset_.shape().bytes()));
  dataset_.read(sample, scratch.read.data());
  return scratch.read.data();
}

void ImageSteps::crop(std::int64_t epoch, std::int64_t sample, Scratch& scratch,
                      std::uint8_t* out) const {
  if (options_.resized_crop) {
    dataset_.read_part(sample, resized_crop_of(epoch, sample), out);
  } else {
    crop_and_flip(dataset_.shape(), options_.crop_padding, draw(epoch, sample), ImageLayout::Planes,
                  same_bytes_.data(), pixels_of(sample, scratch), out);
  }
}

ChoosePart ImageSteps::resized_crop_of(std::int64_t epoch, std::int64_t sample) const {
  return [this, epoch, sample](std::int64_t height, std::int64_t width) {
    auto part = draw_resized_crop(*options_.resized_crop, seed_, as_word(epoch), as_word(sample),
                                  height, width);
    part.mirrored = draw(epoch, sample).flip;
    return part;
  };
}

std::optional<EncodedPart> ImageSteps::encoded_part_of(std::int64_t epoch,
                                                       std::int64_t sample) const {
  if (!options_.resized_crop) return std::nullopt;
  try {
    return encoded_part(dataset_.encoded(sample), resized_crop_of(epoch, sample),
                        dataset_.shape().height);
  } catch (const c10::Error&) {  // crop() says more, or has another image for it
    return std::nullopt;
  }
}

void ImageSteps::make_bytes(std::int64_t epoch, std::int64_t sample, Scratch& scratch,
                            std::uint8_t* out) const {
  crop(epoch, sample, scratch, out);
  if (options_.rand_augment) {
    scratch.read.resize(static_cast<std::size_t>(dataset_.shape().bytes()));
    rand_augment(*options_.rand_augment, seed_, as_word(epoch), as_word(sample), dataset_.shape(),
                 out, scratch.read.data());
  }
}

void ImageSteps::finish(std::int64_t epoch, std::int64_t sample, const std::uint8_t* bytes,
                        float* out) const {
  augmenter_.apply(bytes, AugmentDraw::none(options_), out);
  erase(epoch, sample, out);
}

void ImageSteps::erase(std::int64_t epoch, std::int64_t sample, float* out) const {
  if (options_.erase_probability <= 0.0) return;
  erase_randomly(options_.erase_probability, seed_, as_word(epoch), as_word(sample),
                 dataset_.shape(), augmenter_.layout(), out);
}

void ImageSteps::write(std::int64_t epoch, std::int64_t sample, Scratch& scratch,
                       float* out) const {
  if (options_.resized_crop || options_.rand_augment) {
    scratch.bytes.resize(static_cast<std::size_t>(dataset_.shape().bytes()));
    make_bytes(epoch, sample, scratch, scratch.bytes.data());
    finish(epoch, sample, scratch.bytes.data(), out);
    return;
  }
  // Cropped, flipped and normalised at once.
  augmenter_.apply(pixels_of(sample, scratch), draw(epoch, sample), out);
  erase(epoch, sample, out);
}

}  // namespace adaact
