#include "data/image_batch_plan.h"

#include <utility>

#include "data/random_erasing.h"

namespace adaact {

OperationPlan plan_operation(const OperationDraw& draw, const ImageShape& shape) {
  return {draw.applied, draw.operation, draw.filter, draw.argument,
          map_of(draw.operation, draw.argument, shape)};
}

ImageBatchPlan plan_images(const AugmentOptions& options, const ImageShape& shape,
                           std::uint64_t seed, std::uint32_t epoch,
                           std::vector<std::uint32_t> samples) {
  ImageBatchPlan plan;
  plan.epoch = epoch;
  plan.samples = std::move(samples);
  const auto places = options.rand_augment ? options.rand_augment->operations : 0;
  for (std::int64_t place = 0; place < places; ++place) {
    for (const auto sample : plan.samples) {
      const auto draw = draw_operation(*options.rand_augment, seed, epoch, sample,
                                       static_cast<std::uint32_t>(place));
      plan.operations.push_back(plan_operation(draw, shape));
    }
  }
  if (options.erase_probability > 0.0) {
    for (const auto sample : plan.samples) {
      plan.erased.push_back(
          draw_erasing(options.erase_probability, seed, epoch, sample, shape.height, shape.width));
    }
  }
  return plan;
}

}  // namespace adaact
