#pragma once

// The steps of ImageSteps for a whole batch, in the order in which a GPU takes them. What carries them out is a
// parameter, so that tests can take the same steps on the CPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/types.h>

#include "data/image_batch_maker.h"
#include "data/image_batch_work.h"

namespace adaact {

/// An Executor has memory and carries out work there, in the order in which it is told to:
///
///   torch::Device device() const;
///   each(images, work)             work(image, element) for all work.elements(image) of the images
///   count(images, levels, counts)  how many pixels (images, 3, 256) have each of the levels that are wanted
///   copy(numbers)                  a vector's numbers in a tensor of bytes there
template <typename Executor>
class ImageBatchSteps : public ImageBatchMaker {
 public:
  ImageBatchSteps(ImageBatchFormat format, Executor executor)
      : format_(std::move(format)), executor_(std::move(executor)) {
    format_.values = format_.values.to(executor_.device());
  }

  void scale(const torch::Tensor& sources, std::vector<ScalePlan> plans,
             const torch::Tensor& images) const override {
    if (plans.empty()) return;
    const auto rows = empty({place_rows(plans)}, torch::kByte);
    const auto on_device = executor_.copy(plans);
    const auto* of_images = as<const ScalePlan>(on_device);
    const auto count = static_cast<std::int64_t>(plans.size());
    const int outputs = height() + width();
    const int most = most_taps(plans);
    const auto first = empty({count, outputs}, torch::kInt);
    const auto taps = empty({count, outputs}, torch::kInt);
    const auto weights = empty({count, outputs, most}, torch::kInt);
    const TapTable table{first.template data_ptr<std::int32_t>(),
                         taps.template data_ptr<std::int32_t>(),
                         weights.template data_ptr<std::int32_t>(),
                         height(),
                         width(),
                         most};
    auto* of_rows = rows.template data_ptr<std::uint8_t>();
    executor_.each(count, FindTaps{of_images, table});
    executor_.each(count,
                   ScaleRows{of_images, table, sources.template data_ptr<std::uint8_t>(), of_rows});
    executor_.each(count, ScaleLines{of_images, table, of_rows, planes(images)});
  }

  torch::Tensor finish(torch::Tensor bytes, const ImageBatchPlan& plan) const override {
    if (plan.images() == 0) return empty_images(bytes);
    return finish_bytes(augment(std::move(bytes), plan), plan);
  }

 private:
  int height() const { return static_cast<int>(format_.shape.height); }
  int width() const { return static_cast<int>(format_.shape.width); }

  torch::Tensor empty(std::vector<std::int64_t> sizes, torch::ScalarType type) const {
    return torch::empty(sizes, torch::dtype(type).device(executor_.device()));
  }

  torch::Tensor empty_images(const torch::Tensor& bytes) const {
    const bool planes = format_.layout == ImageLayout::Planes;
    return torch::empty(
        bytes.sizes(), format_.values.options(),
        planes ? torch::MemoryFormat::Contiguous : torch::MemoryFormat::ChannelsLast);
  }

  template <typename T>
  static T* as(const torch::Tensor& bytes) {
    return reinterpret_cast<T*>(bytes.template data_ptr<std::uint8_t>());
  }

  BytePlanes<std::uint8_t> planes(const torch::Tensor& bytes) const {
    return {bytes.template data_ptr<std::uint8_t>(), static_cast<int>(format_.shape.channels),
            height(), width()};
  }
  BytePlanes<const std::uint8_t> read_planes(const torch::Tensor& bytes) const {
    const auto all = planes(bytes);
    return {all.bytes, all.channels, all.height, all.width};
  }

  /// Gives the scaled rows of each source their place; returns how many bytes they take together.
  std::int64_t place_rows(std::vector<ScalePlan>& plans) const {
    std::int64_t bytes = 0;
    for (auto& plan : plans) {
      TORCH_CHECK(plan.height * width() <= std::numeric_limits<int>::max() / 3,
                  "adaact: a part of an image has ", plan.height, " rows, too many for a GPU");
      plan.rows = bytes;
      bytes += plan.height * width() * 3;
    }
    return bytes;
  }

  /// No output has more.
  int most_taps(const std::vector<ScalePlan>& plans) const {
    double stretch = 1.0;
    for (const auto& plan : plans) {
      stretch = std::max({stretch, static_cast<double>(plan.height) / height(),
                          static_cast<double>(plan.width) / width()});
    }
    constexpr double kReach = 2.0;  // of the cubic filter, the longer one
    return 2 * static_cast<int>(std::ceil(kReach * stretch)) + 1;
  }

  /// The places of RandAugment change the bytes in turns with memory of their own.
  torch::Tensor augment(torch::Tensor bytes, const ImageBatchPlan& plan) const {
    if (plan.places() == 0) return bytes;
    const auto images = plan.images();
    const auto operations = executor_.copy(plan.operations);
    const auto counts = empty({images, 3, kLevels}, torch::kInt);
    const auto tables = empty({images, 3, kLevels}, torch::kByte);
    auto changed = torch::empty_like(bytes);
    for (std::int64_t place = 0; place < plan.places(); ++place) {
      const auto* plans = as<const OperationPlan>(operations) + place * images;
      auto* of_planes = counts.template data_ptr<std::int32_t>();
      auto* of_levels = tables.template data_ptr<std::uint8_t>();
      executor_.count(images, CountedLevels{plans, read_planes(bytes)}, of_planes);
      executor_.each(images, MakeTables{plans, of_planes, of_levels});
      executor_.each(images,
                     ApplyOperations{plans, of_levels, read_planes(bytes), planes(changed)});
      std::swap(bytes, changed);
    }
    return bytes;
  }

  torch::Tensor finish_bytes(const torch::Tensor& bytes, const ImageBatchPlan& plan) const {
    switch (format_.values.scalar_type()) {
      case torch::kFloat:
        return finish_as<float>(bytes, plan);
      case torch::kBFloat16:
        return finish_as<c10::BFloat16>(bytes, plan);
      default:
        return finish_as<c10::Half>(bytes, plan);
    }
  }

  template <typename Value>
  torch::Tensor finish_as(const torch::Tensor& bytes, const ImageBatchPlan& plan) const {
    const auto images = empty_images(bytes);
    const auto samples = executor_.copy(plan.samples);
    const auto erased = executor_.copy(plan.erased);
    executor_.each(plan.images(), FinishImages<Value>{
                                      read_planes(bytes), format_.values.template data_ptr<Value>(),
                                      as<const std::uint32_t>(samples),
                                      plan.erased.empty() ? nullptr : as<const PixelBox>(erased),
                                      plan.images(), plan.mixed, plan.mix, format_.seed, plan.epoch,
                                      format_.layout == ImageLayout::ChannelsLast,
                                      images.template data_ptr<Value>()});
    return images;
  }

  ImageBatchFormat format_;
  const Executor executor_;
};

}  // namespace adaact
