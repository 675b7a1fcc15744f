#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <adaact/data/image_part.h>

#include "data/resample_arithmetic.h"

namespace adaact {

/// What output pixels along one axis take from the input pixels, in fixed point.
class ResampleWeights {
 public:
  ResampleWeights(const ScaledAxis& axis, ResampleFilter filter);

  std::int64_t size() const { return static_cast<std::int64_t>(outputs_.size()); }
  /// How many inputs the output with the most of them has.
  std::int64_t most_taps() const { return most_taps_; }
  std::int64_t first_input(std::int64_t i) const { return at(i).first; }
  std::int64_t taps(std::int64_t i) const { return at(i).taps; }
  /// The range of inputs, from the first to behind the last, outside of which no output has any.
  std::int64_t first_of_all() const { return std::min(at(0).first, at(size() - 1).first); }
  std::int64_t end_of_all() const {
    return std::max(at(0).first + at(0).taps, at(size() - 1).first + at(size() - 1).taps);
  }
  const std::int32_t* weights(std::int64_t i) const { return weights_.data() + at(i).weights; }

  void reverse();

 private:
  struct Output {
    std::int64_t first;
    std::int64_t taps;
    std::int64_t weights;  // where they begin
  };

  const Output& at(std::int64_t i) const { return outputs_[static_cast<std::size_t>(i)]; }

  std::vector<Output> outputs_;
  std::vector<std::int32_t> weights_;
  std::int64_t most_taps_ = 0;
};

}  // namespace adaact
