#pragma once

#include <adaact/observe/observer.h>

namespace adaact {

/// Throws where an input cannot have been this weight's, which an explicit observation may claim.
inline void check_observed_features(const torch::Tensor& weight, const LayerUse& use,
                                    std::int64_t observed) {
  const auto features = weight.numel() / weight.size(0);
  const auto groups = use.geometry.groups;
  TORCH_CHECK(observed == features && (use.row_end - use.row_begin) % groups == 0,
              "adaact: an input with ", observed, " features in ", groups,
              " groups was observed for a weight of shape ", weight.sizes(), ", expected ",
              features, " features; a convolution needs its geometry");
}

}  // namespace adaact
