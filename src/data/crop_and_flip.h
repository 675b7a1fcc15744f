#pragma once

#include <algorithm>
#include <cstdint>

#include <adaact/data/augment.h>

namespace adaact {

/// A row of output: its pixel i is at first[i * step]. A flip writes backwards, from the last one on.
template <typename Value>
struct OutputRow {
  Value* first;
  std::int64_t step;

  void fill(std::int64_t begin, std::int64_t end, Value value) const {
    for (auto i = begin; i < end; ++i) first[i * step] = value;
  }

  void look_up(std::int64_t begin, std::int64_t end, const std::uint8_t* in,
               const Value* values) const {
    switch (step) {  // the usual steps as constants, which the compiler can use
      case 1:
        return look_up<1>(begin, end, in, values);
      case -1:
        return look_up<-1>(begin, end, in, values);
      case 3:
        return look_up<3>(begin, end, in, values);
      case -3:
        return look_up<-3>(begin, end, in, values);
      default:
        for (auto i = begin; i < end; ++i) first[i * step] = values[*in++];
    }
  }

 private:
  template <std::int64_t Step>
  void look_up(std::int64_t begin, std::int64_t end, const std::uint8_t* in,
               const Value* values) const {
    auto* out = first;
    for (auto i = begin; i < end; ++i) out[i * Step] = values[*in++];
  }
};

/// The part of [0, size) that lies inside the image when the crop is moved by `shift`.
struct InsideOfCrop {
  std::int64_t begin;
  std::int64_t end;

  InsideOfCrop(std::int64_t shift, std::int64_t size)
      : begin(std::clamp<std::int64_t>(-shift, 0, size)),
        end(std::clamp<std::int64_t>(size - shift, 0, size)) {}

  bool empty() const { return begin == end; }
  bool contains(std::int64_t i) const { return i >= begin && i < end; }
};

/// Crops and flips planes (C, H, W), and writes for each byte what `values`, (C, 256), have for it.
template <typename Value>
void crop_and_flip(const ImageShape& shape, std::int64_t crop_padding, const AugmentDraw& draw,
                   ImageLayout layout, const Value* values, const std::uint8_t* pixels,
                   Value* out) {
  const auto [channels, height, width] = shape;
  const bool planes = layout == ImageLayout::Planes;
  const auto channel_step = planes ? height * width : 1;
  const auto pixel_step = planes ? 1 : channels;
  const auto row_step = width * pixel_step;
  const auto step = draw.flip ? -pixel_step : pixel_step;
  const auto row_start = draw.flip ? row_step - pixel_step : 0;

  const auto down = draw.top - crop_padding;
  const auto right = draw.left - crop_padding;
  const InsideOfCrop rows(down, height);
  const InsideOfCrop columns(right, width);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto* of_channel = values + c * 256;
    const auto zero = of_channel[0];
    const auto* plane = pixels + c * height * width;
    for (std::int64_t y = 0; y < height; ++y) {
      const OutputRow<Value> row{out + c * channel_step + y * row_step + row_start, step};
      if (columns.empty() || !rows.contains(y)) {
        row.fill(0, width, zero);
        continue;
      }
      const auto* in = plane + (y + down) * width + (columns.begin + right);
      row.fill(0, columns.begin, zero);
      row.look_up(columns.begin, columns.end, in, of_channel);
      row.fill(columns.end, width, zero);
    }
  }
}

}  // namespace adaact
