#pragma once

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <adaact/observe/geometry.h>
#include <torch/torch.h>

namespace adaact::testing {

/// A layer's input and how the layer reads it.
struct Case {
  torch::Tensor input;
  Geometry geometry;
  std::string description;
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.description; }

/// Draws layers of every kind the library promises, in every layout.
class CaseGenerator {
 public:
  explicit CaseGenerator(unsigned seed) : random_(seed) { torch::manual_seed(seed); }

  Case draw(torch::ScalarType dtype) {
    const auto dims = between(0, 3);
    Case c = dims == 0 ? linear() : convolution(dims);
    c.input = laid_out(c.input.to(dtype));
    std::ostringstream text;
    text << dtype << " input " << c.input.sizes() << " strides " << c.input.strides() << " kernel "
         << c.geometry.kernel << " stride " << c.geometry.stride << " padding "
         << c.geometry.padding_before << "/" << c.geometry.padding_after << " dilation "
         << c.geometry.dilation << " groups " << c.geometry.groups;
    c.description = text.str();
    return c;
  }

 private:
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Case linear() {
    std::vector<int64_t> shape;
    for (auto d = between(0, 2); d > 0; --d) shape.push_back(between(1, 30));
    shape.push_back(between(1, 5) == 1 ? between(1, 3000) : between(1, 70));
    return {torch::randn(shape), Geometry::linear(), ""};
  }

  Case convolution(int64_t dims) {
    const auto groups = between(1, 3);
    std::vector<int64_t> shape{between(1, 9), groups * between(1, 4)};
    std::vector<int64_t> kernel, stride, padding, dilation;
    for (int64_t d = 0; d < dims; ++d) {
      kernel.push_back(between(1, 4));
      stride.push_back(between(1, 3));
      padding.push_back(between(0, 3));
      dilation.push_back(between(1, 3));
      const auto reach = dilation.back() * (kernel.back() - 1) + 1;
      shape.push_back(std::max<int64_t>(1, reach - 2 * padding.back()) + between(0, 8));
    }
    const auto input = torch::randn(shape);
    if (between(0, 3) == 0) {
      const std::string name = between(0, 1) == 0 ? "same" : "valid";
      if (name == "same") std::fill(stride.begin(), stride.end(), 1);
      if (name == "same" || fits(shape, kernel, dilation)) {
        return {input,
                Geometry::convolution_with_named_padding(kernel, stride, name, dilation, groups),
                ""};
      }
    }
    return {input, Geometry::convolution(kernel, stride, padding, dilation, groups), ""};
  }

  static bool fits(const std::vector<int64_t>& shape, const std::vector<int64_t>& kernel,
                   const std::vector<int64_t>& dilation) {
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      if (shape[d + 2] < dilation[d] * (kernel[d] - 1) + 1) return false;
    }
    return true;
  }

  /// The same values contiguous, channels-last, permuted, sliced, or with an expanded batch.
  torch::Tensor laid_out(const torch::Tensor& x) {
    switch (between(0, 4)) {
      case 1:
        if (x.dim() == 4) return x.contiguous(torch::MemoryFormat::ChannelsLast);
        if (x.dim() == 5) return x.contiguous(torch::MemoryFormat::ChannelsLast3d);
        return x.dim() == 3 ? x.transpose(1, 2).contiguous().transpose(1, 2) : x;
      case 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1);
      case 3: {
        auto wide = torch::zeros_like(torch::cat({x, x}, -1));
        auto part = wide.slice(-1, 0, wide.size(-1), 2);
        part.copy_(x);
        return part;
      }
      case 4:
        return x.dim() >= 2 ? x.narrow(0, 0, 1).expand(x.sizes()) : x;
      default:
        return x;
    }
  }

  std::mt19937 random_;
};

}  // namespace adaact::testing
