#include <adaact/data/dataset.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/util/Exception.h>

#include "data/resample.h"

namespace adaact {

Dataset::Dataset(DatasetInfo info) : info_(std::move(info)) {
  const auto& shape = info_.shape;
  TORCH_CHECK(shape.channels > 0 && shape.height > 0 && shape.width > 0, info_.name,
              ": images are ", shape.channels, "x", shape.height, "x", shape.width,
              ", expected sizes > 0");
  TORCH_CHECK(!info_.class_names.empty(), info_.name, ": there are no classes");
}

const std::uint8_t* Dataset::pixels(std::int64_t /*index*/) const { return nullptr; }

void Dataset::read_part(std::int64_t index, const ChoosePart& choose, std::uint8_t* pixels) const {
  const auto [channels, height, width] = shape();
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(shape().bytes()));
  read(index, whole.data());
  const auto [box, filter, mirrored] = choose(height, width);
  std::vector<std::uint8_t> cut(static_cast<std::size_t>(box.height * box.width));
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < box.height; ++y) {
      const auto* row = whole.data() + (c * height + box.top + y) * width + box.left;
      std::copy_n(row, box.width, cut.data() + y * box.width);
    }
    resize_image({cut.data(), box.height, box.width, 1}, filter, mirrored, height, width,
                 pixels + c * height * width);
  }
}

void Dataset::check_index(std::int64_t index) const {
  TORCH_CHECK_INDEX(index >= 0 && index < size(), name(), ": sample is ", index, ", expected 0 to ",
                    size() - 1);
}

void Dataset::add_remark(std::string remark) { info_.remarks.push_back(std::move(remark)); }

std::vector<std::uint8_t> Dataset::encoded(std::int64_t index) const {
  check_index(index);
  return {};
}

ImageTensorDataset::ImageTensorDataset(DatasetInfo info, const torch::Tensor& images,
                                       const torch::Tensor& labels)
    : Dataset(std::move(info)), images_(images.contiguous()), labels_(labels.contiguous()) {
  const auto fits = images_.scalar_type() == torch::kByte && images_.dim() == 4 &&
                    images_.size(1) == shape().channels && images_.size(2) == shape().height &&
                    images_.size(3) == shape().width && images_.device().is_cpu();
  TORCH_CHECK(fits, name(), ": images are ", images_.toString(), images_.sizes(),
              ", expected CPUByteType[N, ", shape().channels, ", ", shape().height, ", ",
              shape().width, "]");
  TORCH_CHECK(labels_.scalar_type() == torch::kLong && labels_.dim() == 1 &&
                  labels_.size(0) == images_.size(0) && labels_.device().is_cpu(),
              name(), ": labels are ", labels_.toString(), labels_.sizes(),
              ", expected CPULongType[", images_.size(0), "]");
  size_ = images_.size(0);
  TORCH_CHECK(size_ > 0, name(), ": there are no images");
  first_pixel_ = images_.data_ptr<std::uint8_t>();
  first_label_ = labels_.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < size_; ++i) {
    TORCH_CHECK(first_label_[i] >= 0 && first_label_[i] < classes(), name(), ": label of sample ",
                i, " is ", first_label_[i], ", expected 0 to ", classes() - 1);
  }
}

std::int64_t ImageTensorDataset::label(std::int64_t index) const {
  check_index(index);
  return first_label_[index];
}

const std::uint8_t* ImageTensorDataset::pixels(std::int64_t index) const {
  check_index(index);
  return first_pixel_ + index * shape().bytes();
}

void ImageTensorDataset::read(std::int64_t index, std::uint8_t* pixels) const {
  std::memcpy(pixels, this->pixels(index), static_cast<std::size_t>(shape().bytes()));
}

}  // namespace adaact
