#pragma once

// Batches of bytes, and what is to become of them.

#include <cstdint>
#include <vector>

#include <adaact/data/augment.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "data/image_batch_maker.h"

namespace adaact::testing {

inline constexpr std::uint64_t kBatchSeed = 11;
inline constexpr std::uint32_t kBatchEpoch = 3;
inline const ImageShape kBatchShape{3, 21, 17};

inline torch::Tensor normalised_values(torch::ScalarType type) {
  const adaact::Augmenter normalizer(kBatchShape, {{.4F, .5F, .45F}, {.2F, .25F, .22F}}, {});
  return torch::tensor(normalizer.values()).view({3, 256}).to(type);
}

inline ImageBatchFormat batch_format(torch::ScalarType type = torch::kFloat,
                                     ImageLayout layout = ImageLayout::Planes) {
  return {kBatchShape, normalised_values(type), layout, kBatchSeed};
}

/// Bytes that are random but for plain parts, in which operations that count levels have something to do.
inline torch::Tensor patchy_bytes(std::int64_t images) {
  torch::manual_seed(5);
  auto bytes =
      torch::randint(20, 230, {images, 3, kBatchShape.height, kBatchShape.width}, torch::kByte);
  bytes.narrow(2, 3, 9).narrow(3, 2, 11).fill_(77);
  return bytes;
}

inline std::vector<std::uint32_t> sample_numbers(std::int64_t images) {
  std::vector<std::uint32_t> all;
  for (std::int64_t i = 0; i < images; ++i) all.push_back(static_cast<std::uint32_t>(7 * i + 2));
  return all;
}

/// The bytes as they are, without normalisation.
inline ImageBatchFormat same_levels_format() {
  auto same = batch_format();
  same.values = torch::arange(256, torch::kFloat).repeat({3, 1});
  return same;
}

/// An operation, applied to all of these images but the fourth, with ever stronger arguments of both signs.
inline ImageBatchPlan one_operation(ImageOperation operation, ResampleFilter filter,
                                    std::int64_t images) {
  ImageBatchPlan plan;
  plan.samples = sample_numbers(images);
  for (std::int64_t i = 0; i < images; ++i) {
    const double sign = i % 2 == 0 ? 1.0 : -1.0;
    const double level = 10.0 * static_cast<double>(i) / static_cast<double>(images);
    const OperationDraw draw{i != 3, operation, argument_at(operation, level, sign), filter};
    plan.operations.push_back(plan_operation(draw, kBatchShape));
  }
  return plan;
}

/// Sources of many sizes, one after the other, and how each is scaled with either filter, some of them mirrored.
struct ScaledSources {
  std::vector<ScalePlan> plans;
  std::vector<torch::Tensor> pixels;

  ScaledSources() {
    torch::manual_seed(6);
    const std::vector<std::vector<std::int64_t>> sizes{{21, 17}, {5, 90}, {64, 33},
                                                       {1, 1},   {20, 3}, {200, 170}};
    std::int64_t begin = 0;
    for (const auto& size : sizes) {
      for (const auto filter : {ResampleFilter::Bilinear, ResampleFilter::Bicubic}) {
        const auto image = static_cast<std::int64_t>(plans.size());
        plans.push_back({image, begin, size[0], size[1], 0, filter, image % 3 == 1});
        pixels.push_back(torch::randint(0, 256, {size[0], size[1], 3}, torch::kByte).flatten());
        begin += size[0] * size[1] * 3;
      }
    }
  }

  std::int64_t count() const { return static_cast<std::int64_t>(plans.size()); }
};

}  // namespace adaact::testing
