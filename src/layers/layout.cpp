#include "layers/layout.h"

namespace adaact {

std::int64_t distance_of_rows(const torch::Tensor& images, bool channels_last) {
  const auto height = images.size(2);
  const auto width = images.size(3);
  if (!channels_last) {
    return images.size(0) > 1 ? images.stride(0) : images.size(1) * height * width;
  }
  if (width > 1) return images.stride(3);
  if (height > 1) return images.stride(2);
  return images.size(0) > 1 ? images.stride(0) : images.size(1);
}

bool is_laid_out_by_channels(const torch::Tensor& images, bool channels_last) {
  if (images.dim() != 4 || images.numel() == 0) return false;
  const auto lies = [&](int dim, std::int64_t stride) {
    return images.size(dim) == 1 || images.stride(dim) == stride;
  };
  const auto channels = images.size(1);
  const auto height = images.size(2);
  const auto width = images.size(3);
  const auto distance = distance_of_rows(images, channels_last);
  if (channels_last) {
    return lies(1, 1) && lies(3, distance) && lies(2, width * distance) &&
           lies(0, height * width * distance) && distance >= channels;
  }
  return lies(3, 1) && lies(2, width) && lies(1, height * width) && lies(0, distance) &&
         distance >= channels * height * width;
}

}  // namespace adaact
