#include "experiments/measure/neighbouring_data.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

namespace adaact {

NeighbouringDataset::NeighbouringDataset(std::shared_ptr<const Dataset> original,
                                         std::int64_t replaced, const Dataset& source,
                                         std::int64_t replacement)
    : Dataset(original->info()),
      original_(std::move(original)),
      replaced_(replaced),
      label_(source.label(replacement)) {
  check_index(replaced);
  TORCH_CHECK(source.shape().bytes() == shape().bytes(), "images of ", source.name(), " have ",
              source.shape().bytes(), " bytes, expected ", shape().bytes(), " as in ", name());
  pixels_.resize(static_cast<std::size_t>(shape().bytes()));
  source.read(replacement, pixels_.data());
}

std::int64_t NeighbouringDataset::label(std::int64_t index) const {
  return index == replaced_ ? label_ : original_->label(index);
}

void NeighbouringDataset::read(std::int64_t index, std::uint8_t* pixels) const {
  if (index != replaced_) return original_->read(index, pixels);
  std::copy(pixels_.begin(), pixels_.end(), pixels);
}

const std::uint8_t* NeighbouringDataset::pixels(std::int64_t index) const {
  return index == replaced_ ? pixels_.data() : original_->pixels(index);
}

}  // namespace adaact
