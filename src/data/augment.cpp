#include <adaact/data/augment.h>

#include <algorithm>

#include <c10/util/Exception.h>

namespace adaact {
namespace {

/// A row of output: its pixel i is at first[i * step]. A flip writes backwards, from the last one on.
struct Row {
  float* first;
  std::int64_t step;

  void fill(std::int64_t begin, std::int64_t end, float value) const {
    for (auto i = begin; i < end; ++i) first[i * step] = value;
  }

  void look_up(std::int64_t begin, std::int64_t end, const std::uint8_t* in,
               const float* values) const {
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
               const float* values) const {
    auto* out = first;
    for (auto i = begin; i < end; ++i) out[i * Step] = values[*in++];
  }
};

/// The part of [0, size) that lies inside the image when the crop is moved by `shift`.
struct Inside {
  std::int64_t begin;
  std::int64_t end;

  Inside(std::int64_t shift, std::int64_t size)
      : begin(std::clamp<std::int64_t>(-shift, 0, size)),
        end(std::clamp<std::int64_t>(size - shift, 0, size)) {}

  bool empty() const { return begin == end; }
  bool contains(std::int64_t i) const { return i >= begin && i < end; }
};

}  // namespace

Augmenter::Augmenter(const ImageShape& shape, const Normalization& normalization,
                     const AugmentOptions& options, ImageLayout layout)
    : shape_(shape), options_(options), layout_(layout) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  TORCH_CHECK(normalization.mean.size() == channels && normalization.std.size() == channels,
              "Augmenter: normalization has ", normalization.mean.size(), " means and ",
              normalization.std.size(), " standard deviations, expected ", channels, " of each");
  constexpr std::int64_t kMostPadding = 1 << 16;
  TORCH_CHECK(options.crop_padding >= 0 && options.crop_padding <= kMostPadding,
              "Augmenter: crop_padding is ", options.crop_padding, ", expected 0 to ",
              kMostPadding);
  TORCH_CHECK(options.flip_probability >= 0.0 && options.flip_probability <= 1.0,
              "Augmenter: flip_probability is ", options.flip_probability, ", expected [0, 1]");
  for (std::size_t c = 0; c < channels; ++c) {
    TORCH_CHECK(normalization.std[c] > 0.0F, "Augmenter: std of channel ", c, " is ",
                normalization.std[c], ", expected > 0");
    for (int byte = 0; byte < 256; ++byte) {
      const float pixel = static_cast<float>(byte) / 255.0F;
      values_.push_back((pixel - normalization.mean[c]) / normalization.std[c]);
    }
  }
}

void Augmenter::apply(const std::uint8_t* pixels, const AugmentDraw& draw, float* out) const {
  const auto [channels, height, width] = shape_;
  const bool planes = layout_ == ImageLayout::Planes;
  const auto channel_step = planes ? height * width : 1;
  const auto pixel_step = planes ? 1 : channels;
  const auto row_step = width * pixel_step;
  const auto step = draw.flip ? -pixel_step : pixel_step;
  const auto row_start = draw.flip ? row_step - pixel_step : 0;

  const auto down = draw.top - options_.crop_padding;
  const auto right = draw.left - options_.crop_padding;
  const Inside rows(down, height);
  const Inside columns(right, width);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto* values = values_.data() + c * 256;
    const auto zero = values[0];
    const auto* plane = pixels + c * height * width;
    for (std::int64_t y = 0; y < height; ++y) {
      const Row row{out + c * channel_step + y * row_step + row_start, step};
      if (columns.empty() || !rows.contains(y)) {
        row.fill(0, width, zero);
        continue;
      }
      const auto* in = plane + (y + down) * width + (columns.begin + right);
      row.fill(0, columns.begin, zero);
      row.look_up(columns.begin, columns.end, in, values);
      row.fill(columns.end, width, zero);
    }
  }
}

torch::Tensor augment_reference(const torch::Tensor& image, const Normalization& normalization,
                                const AugmentOptions& options, const AugmentDraw& draw) {
  const auto padding = options.crop_padding;
  auto result = torch::constant_pad_nd(image, {padding, padding, padding, padding}, 0)
                    .narrow(1, draw.top, image.size(1))
                    .narrow(2, draw.left, image.size(2));
  if (draw.flip) result = result.flip({2});
  const auto channels = [](const std::vector<float>& values) {
    return torch::tensor(values).view({-1, 1, 1});
  };
  return result.to(torch::kFloat)
      .div(255)
      .sub(channels(normalization.mean))
      .div(channels(normalization.std));
}

}  // namespace adaact
