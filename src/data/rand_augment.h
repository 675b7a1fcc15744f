#pragma once

#include <cstdint>

#include <adaact/data/augment.h>
#include <adaact/data/image_part.h>
#include <adaact/data/random_stream.h>

#include "data/image_operations.h"
#include "data/normal_pair.h"

namespace adaact {

/// What an operation is given at a level of 0 to 10, stronger with every level; `sign`, 1 or -1, is the side of
/// those that have two.
ADAACT_HOST_DEVICE inline double argument_at(ImageOperation operation, double level, double sign) {
  const double share = level / 10.0;
  switch (operation) {
    case ImageOperation::Rotate:
      return sign * (share * 30.0);
    case ImageOperation::Posterize:
      return 4 - static_cast<int>(share * 4);
    case ImageOperation::Solarize:
      return 256 - static_cast<int>(share * 256);
    case ImageOperation::SolarizeAdd:
      return static_cast<int>(share * 110);
    case ImageOperation::Color:
    case ImageOperation::Contrast:
    case ImageOperation::Brightness:
    case ImageOperation::Sharpness: {
      const double factor = 1.0 + sign * (share * 0.9);
      return factor < 0.1 ? 0.1 : factor;
    }
    case ImageOperation::ShearX:
    case ImageOperation::ShearY:
      return sign * (share * 0.3);
    case ImageOperation::TranslateX:
    case ImageOperation::TranslateY:
      return sign * (share * 0.45);
    case ImageOperation::AutoContrast:
    case ImageOperation::Equalize:
    case ImageOperation::Invert:
      break;
  }
  return 0.0;
}

struct OperationDraw {
  bool applied = false;
  ImageOperation operation = ImageOperation::AutoContrast;
  double argument = 0.0;
  ResampleFilter filter = ResampleFilter::Bilinear;
};

/// The operation that comes in this place, of the fifteen any with equal probability.
ADAACT_HOST_DEVICE inline OperationDraw draw_operation(const RandAugmentOptions& options,
                                                       std::uint64_t seed, std::uint32_t epoch,
                                                       std::uint32_t sample, std::uint32_t place) {
  const RandomStream stream(seed, RandomPurpose::RandAugment, epoch, sample);
  const auto what = stream.block(2 * place);
  const auto how_much = stream.block(2 * place + 1);
  OperationDraw draw;
  draw.operation =
      static_cast<ImageOperation>(RandomStream::below_of(what.words[0], kImageOperations));
  draw.applied = RandomStream::uniform_of(what.words[1]) < static_cast<float>(options.probability);
  const double sign = RandomStream::below_of(what.words[2], 2) == 1 ? -1.0 : 1.0;
  const bool bicubic = RandomStream::below_of(what.words[3], 2) == 1;
  draw.filter = bicubic ? ResampleFilter::Bicubic : ResampleFilter::Bilinear;
  const auto normal = normal_pair(how_much.words[0], how_much.words[1]).first;
  const double level = options.magnitude + options.magnitude_std * static_cast<double>(normal);
  draw.argument =
      argument_at(draw.operation, level < 0.0 ? 0.0 : (level > 10.0 ? 10.0 : level), sign);
  return draw;
}

/// Does to planes (3, H, W) what is drawn for a sample in an epoch. `scratch` has room for as many bytes.
void rand_augment(const RandAugmentOptions& options, std::uint64_t seed, std::uint32_t epoch,
                  std::uint32_t sample, const ImageShape& shape, std::uint8_t* image,
                  std::uint8_t* scratch);

}  // namespace adaact
